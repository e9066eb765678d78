package connector

import "time"

// The reader's lead is how much it has taken from the server that Kafka has not acknowledged. A larger one only waits
// in memory, as long as Kafka always has something to do. So the reader begins with a small part of the window, and
// takes more if it spends its time waiting: with brokers that are far away, or slow.
const (
	// leastShare is the part of the window that the lead begins with. A sixteenth of the default is 2 MiB: 25 ms at
	// 80 MB/s.
	leastShare = 16
	// leastShareTransactions is the same if Kafka acknowledges by whole transactions, of which there are two: one
	// is filled while the other is committed.
	leastShareTransactions = 8
	// mostShare is the part that the lead can grow to while Kafka acknowledges. A quarter of the default is 8 MiB: two
	// Kafka transactions, 80 MB/s if a commit takes 100 ms; or more than the five requests of 1 MiB that a broker
	// has at a time.
	mostShare = 4
	// perPartition is the lead for each partition in use, if that is more: a batch costs the broker as much as some
	// kilobytes do, so the rows in memory for thousands of partitions have to be worth a batch of each.
	perPartition = 2 << 10
)

const (
	// leadPeriod is how long the waits are summed up before the lead changes.
	leadPeriod = time.Second
	// firstPeriod is the length of the first one, in which there are connections to make, and metadata to ask for.
	firstPeriod = 2 * time.Second
)

// lead is the bound of the reader's lead, in bytes.
type lead struct {
	least, most int64
	bytes       int64 // now, for few partitions
	widest      int64 // for however many: a part of the window stays for transactions that are begun

	begun  bool          // the first period is over
	since  time.Time     // start of the period; zero before the first wait
	waited time.Duration // in the period
}

func newLead(window int64, transactions bool) lead {
	share, widest := int64(leastShare), window-window/mostShare
	if transactions {
		// A transaction of Postgres that fits into the window is to be whole in Kafka, so it needs the room.
		share, widest = leastShareTransactions, window/mostShare
	}
	least := max(window/share, 1)
	return lead{least: least, most: max(window/mostShare, 1), bytes: least, widest: widest}
}

// bound is the lead with so many partitions in use.
func (l *lead) bound(partitions int64) int64 {
	return max(l.bytes, min(partitions*perPartition, l.widest))
}

// wait counts a wait for Kafka, or the part of it that is over.
func (l *lead) wait(from, to time.Time) {
	if l.since.IsZero() {
		l.since = from
	}
	l.waited += to.Sub(from)
	span, period := to.Sub(l.since), leadPeriod
	if !l.begun {
		period = firstPeriod
	}
	if span < period {
		return
	}
	l.adjust(span)
	l.begun, l.since, l.waited = true, to, 0
}

// adjust changes the lead after a period. A reader that Kafka delays waits for most of the time, since its own work is
// short: while the server is the bound, it naps. The waits between those may be many and cost nothing, as the server's
// send queue goes on filling.
func (l *lead) adjust(span time.Duration) {
	switch {
	case l.waited >= span*9/10: // hardly anything is acknowledged
		l.bytes = l.most
	case !l.begun:
	case l.waited >= span/4:
		l.bytes = min(2*l.bytes, l.most)
	case l.waited <= span/10:
		l.bytes = max(l.bytes/2, l.least)
	}
}
