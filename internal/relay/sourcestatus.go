package relay

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Account is a source's knowledge of itself, as far as it takes to say why rows wait and which alerts fire.
type Account struct {
	State  State
	Waits  []fault.Wait // oldest first
	Halted []*HaltedRow // the oldest first
	Window Window
	Counts Counts
	Grown  []Growth // topics that have got partitions while the process ran, the latest first

	// Of a source that reads the log.
	Slot                     string
	WindowFull               bool
	Open                     *OpenTx
	OldestUnconfirmedSeconds float64  // age of the oldest unconfirmed transaction with events
	HeardSecondsAgo          *float64 // since the last byte from Postgres; nil before the first

	// Of a source that polls.
	Backlog *Backlog // nil before the first query
}

// Growth is a topic that has got partitions: keys go to other partitions from then on.
type Growth struct {
	Topic    string    `json:"topic"`
	Before   int       `json:"before"`
	Now      int       `json:"now"`
	At       time.Time `json:"at"`
	Next     string    `json:"next"`
	Commands []string  `json:"commands,omitempty"`
}

// MaxCounted limits the count of a backlog: the count must cost the same however large the backlog is.
const MaxCounted = 100_000

// Backlog are the rows that are not published yet.
type Backlog struct {
	Rows int64 `json:"rows"` // MaxCounted means at least so many
	// age of the oldest row; null if no timestamp is mapped or there is no row
	Oldest *float64  `json:"oldest_seconds"`
	At     time.Time `json:"at"`
}

// Seconds is the age of the oldest row when it was looked at, 0 if there was none. It does not keep counting: by now
// that row may be published.
func (b *Backlog) Seconds() float64 {
	if b.Oldest == nil {
		return 0
	}
	return *b.Oldest
}
