package offsets

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSnapshot(t *testing.T) {
	d := newDrive(t)
	require.Equal(t, Snapshot{Session: 1, Confirmed: 100}, d.Snapshot())

	d.begin(110)
	require.Equal(t, Snapshot{Session: 1, Confirmed: 100, Open: 110, Next: Position{Commit: 110}, Last: 110},
		d.Snapshot())
	require.True(t, d.Open())

	d.add(y, y).end(120).ack(110).begin(120).add(y, y, y)
	require.Equal(t, Snapshot{
		Session: 1, Confirmed: 100, Open: 120, OpenRows: 3, Next: Position{Commit: 120, Index: 3}, Last: 120,
		Transactions: 2, Outstanding: 4, Unconfirmed: 5,
	}, d.Snapshot())

	d.resume()
	require.True(t, d.Open(), "half received counts as open")
	require.Equal(t, Snapshot{
		Session: 1, Confirmed: 100, Open: 120, OpenRows: 3, Last: 120, Transactions: 2, Outstanding: 4, Unconfirmed: 5,
	}, d.Snapshot())

	d.begin(110).add(f)
	require.Equal(t, Position{Commit: 110, Index: 1}, d.Snapshot().Next)
	d.add(f).end(120).tx(120, 130, f, f, f).ack(110, 120, 120, 120)
	require.Equal(t, Snapshot{Session: 1, Confirmed: 130, Last: 120}, d.Snapshot())
	require.False(t, d.Open())
}

func TestOutstanding(t *testing.T) {
	d := newDrive(t)
	expect := func(rows, unconfirmed int, oldest LSN) {
		t.Helper()
		gotRows, gotOldest, ok := d.Outstanding()
		require.Equal(t, rows, gotRows)
		require.Equal(t, unconfirmed, d.Unconfirmed())
		require.Equal(t, oldest != 0, ok)
		if ok {
			require.Equal(t, at(oldest), gotOldest)
		}
	}
	expect(0, 0, 0)
	d.tx(110, 120)
	expect(0, 0, 0)
	d.tx(120, 130, y, y).tx(130, 140, y)
	expect(3, 3, 120)
	d.ack(130)
	expect(2, 3, 120)
	d.tx(140, 150).tx(150, 160, y).ack(150)
	expect(2, 4, 120)
	d.ack(120, 120)
	expect(0, 0, 0)
	d.begin(160).add(y).ack(160)
	expect(0, 1, 160) // received so far, and acknowledged
}

// After one row that is not acknowledged, others cost no memory.
func TestAcknowledgedTransactionsFold(t *testing.T) {
	d := newDrive(t).tx(110, 120, y)
	for c := LSN(120); c < 120+10*1000; c += 10 {
		d.tx(c, c+10, y).ack(c)
	}
	require.Len(t, d.ledger.slots, 2)
	require.Equal(t, 1, d.Snapshot().Transactions)
	require.Equal(t, 1001, d.Unconfirmed())
	d.resume().tx(110, 120, f).tx(120, 130, f).tx(5000, 5010, f).ack(110).confirmed(120 + 10*1000)
	require.Zero(t, d.Unconfirmed())
}

// transactions runs n times four transactions of 10 rows through the tracker and acknowledges them together.
func transactions(t testing.TB, tr *Tracker, next *LSN, tickets []Ticket, n int) {
	for range n {
		tickets = tickets[:0]
		for range 4 {
			if err := tr.Begin(*next, at(*next)); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				_, ticket, _, _ := tr.Add()
				tickets = append(tickets, ticket)
			}
			*next += 10
			_ = tr.Commit(*next)
		}
		if err := tr.Ack(tickets, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrackerAllocatesNothing(t *testing.T) {
	tr, next, tickets := NewTracker(1), LSN(10), make([]Ticket, 0, 64)
	transactions(t, tr, &next, tickets, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		transactions(t, tr, &next, tickets, 4)
		tr.Observe(next)
		tr.Resume()
		_, _, _ = tr.Outstanding()
		_ = tr.Snapshot()
	}))
	require.Equal(t, next, tr.Confirmed())
}

// Reader, producer and status each on a goroutine, for the race detector.
func TestTrackerConcurrent(t *testing.T) {
	tr := NewTracker(1)
	acks, stop := make(chan Ticket, 100), make(chan struct{})
	var reader, status sync.WaitGroup
	reader.Go(func() {
		defer close(acks)
		for c := LSN(10); c < 20_000; c += 10 {
			_ = tr.Begin(c, at(c))
			for range c / 10 % 4 {
				_, ticket, _, _ := tr.Add()
				acks <- ticket
			}
			_ = tr.Commit(c + 10)
			tr.Observe(c + 10)
		}
	})
	reader.Go(func() {
		for ticket := range acks {
			if err := tr.Ack([]Ticket{ticket}, nil); err != nil {
				t.Error(err)
			}
		}
	})
	status.Go(func() {
		for last := LSN(0); ; {
			now := tr.Confirmed()
			if now < last {
				t.Errorf("confirmed fell from %s to %s", last, now)
			}
			last = now
			_, _, _ = tr.Outstanding()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	reader.Wait()
	close(stop)
	status.Wait()
	require.Equal(t, LSN(20_000), tr.Confirmed())
}

// One operation is four transactions: Begin, 10 rows, Commit and their acks.
func BenchmarkTransaction(b *testing.B) {
	tr, next, tickets := NewTracker(1), LSN(10), make([]Ticket, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		transactions(b, tr, &next, tickets, 1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4), "ns/transaction")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*40), "ns/row")
}

// Acks alone, of 1,000 transactions of 1 row and of 10.
func BenchmarkAck(b *testing.B) {
	for name, rows := range map[string]int{"runs of 1": 1, "runs of 10": 10} {
		b.Run(name, func(b *testing.B) {
			const n = 1000
			tr, next, tickets := NewTracker(1), LSN(10), make([]Ticket, 0, n*rows)
			for b.Loop() {
				b.StopTimer()
				tickets = tickets[:0]
				for range n {
					_ = tr.Begin(next, at(next))
					for range rows {
						_, ticket, _, _ := tr.Add()
						tickets = append(tickets, ticket)
					}
					next += 10
					_ = tr.Commit(next)
				}
				b.StartTimer()
				_ = tr.Ack(tickets, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*rows), "ns/ticket")
		})
	}
}

func TestOldest(t *testing.T) {
	d := newDrive(t)
	expect := func(commit LSN, acked uint32) {
		t.Helper()
		c, a := d.Oldest()
		require.Equal(t, commit, c)
		require.Equal(t, acked, a)
	}
	expect(0, 0)
	d.begin(110).add(y, y).end(120).begin(120).add(y).end(130)
	expect(110, 0)
	d.ack(120)
	expect(110, 0)
	d.ack(110)
	expect(110, 1)
	d.ack(110)
	expect(0, 0)
}
