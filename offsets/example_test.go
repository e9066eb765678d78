package offsets_test

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/offsets"
)

// Two transactions are received, their rows are acknowledged out of order, and the stream breaks in between. The
// tracker moves the confirmed position only over transactions of which every row is acknowledged.
func ExampleTracker() {
	tracker := offsets.NewTracker(0x1000) // confirmed_flush_lsn of the slot
	receive := func(commit, end offsets.LSN, rows int) (tickets []offsets.Ticket) {
		check(tracker.Begin(commit, time.Now()))
		for range rows {
			position, ticket, fresh, err := tracker.Add()
			check(err)
			fmt.Println("row", position, "produce:", fresh)
			if fresh {
				tickets = append(tickets, ticket)
			}
		}
		check(tracker.Commit(end))
		return tickets
	}
	first := receive(0x1100, 0x1130, 2)
	second := receive(0x1200, 0x1230, 1)
	acknowledge := func(ticket offsets.Ticket) {
		check(tracker.Ack([]offsets.Ticket{ticket}, nil))
		fmt.Println("confirmed", tracker.Confirmed())
	}
	acknowledge(second[0]) // waits for the first transaction
	acknowledge(first[0])  // the first transaction has one more row

	tracker.Resume() // the stream broke; the next stream starts at Confirmed and sends both transactions again
	receive(0x1100, 0x1130, 2)
	receive(0x1200, 0x1230, 1)
	acknowledge(first[1]) // the acknowledgment arrived after the break
	tracker.Observe(0x1300)
	fmt.Println("confirmed", tracker.Confirmed(), "after a keepalive")
	// Output:
	// row 0000000000001100-00000000 produce: true
	// row 0000000000001100-00000001 produce: true
	// row 0000000000001200-00000000 produce: true
	// confirmed 0/1000
	// confirmed 0/1000
	// row 0000000000001100-00000000 produce: false
	// row 0000000000001100-00000001 produce: false
	// row 0000000000001200-00000000 produce: false
	// confirmed 0/1230
	// confirmed 0/1300 after a keepalive
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
