package publisher

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

// Status is the state of a Publisher.
type Status struct {
	State  string    // starting, polling, reconnecting, halted, paused, needs_operator, draining, stopped
	Since  time.Time // of the state, UTC
	Reason string    // one sentence, if there is one
	// Remedy is the next step for an operator, and Commands are the commands for it.
	Remedy   string
	Commands []string

	Ready       bool
	ReadyReason string

	// Backlog is how many rows were not published when the table was last queried, counted up to 100,000, and
	// OldestAge the age of the oldest of them. Known is false before the first query.
	Backlog struct {
		Known     bool
		Rows      int64
		OldestAge time.Duration
	}
	InFlight int // records that Kafka has not acknowledged

	// Since New.
	Published, Skipped, DeadLettered uint64

	// Halted are the rows that cannot be published, each with the reason. Rows of other keys go on.
	Halted []HaltedRow
}

// HaltedRow is a row that cannot be published. Its lane waits until the row is corrected, or an operator decides to
// pass it.
type HaltedRow struct {
	Table, EventID, Sequence string
	Reason                   string // one sentence
	Remedy                   string
	Commands                 []string
	Since                    time.Time // UTC
}

// Status returns the whole picture. It is cheap.
func (p *Publisher) Status() Status {
	st := p.status()
	out := Status{
		State: string(st.State.Name), Since: st.State.Since, Reason: st.State.Reason, Remedy: st.State.Next,
		Commands: st.State.Commands, Ready: st.Ready, ReadyReason: st.ReadyReason, InFlight: st.Window.Records,
		Published: st.Counts.Published, Skipped: st.Counts.Skipped, DeadLettered: st.Counts.DeadLettered,
	}
	if b := st.Backlog; b != nil {
		out.Backlog.Known, out.Backlog.Rows = true, b.Rows
		out.Backlog.OldestAge = time.Duration(b.Seconds() * float64(time.Second))
	}
	for _, h := range st.Halted {
		out.Halted = append(out.Halted, HaltedRow{
			Table: h.Table, EventID: h.EventID, Sequence: h.Position, Reason: h.Message, Remedy: h.Next,
			Commands: h.Commands, Since: h.Since,
		})
	}
	return out
}

// status is the relay's account of itself, and while it does not run, why.
func (p *Publisher) status() polling.Status {
	st := p.now.Load().Status()
	if s := p.stay.Standing(); s != nil {
		st.State = s.State
		st.Ready, st.ReadyReason = p.ready()
	}
	return st
}
