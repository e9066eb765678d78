package polling

import (
	"cmp"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Status is the answer of /status. Times are UTC.
type Status struct {
	Source      string      `json:"source"` // polling
	State       relay.State `json:"state"`
	Ready       bool        `json:"ready"`
	ReadyReason string      `json:"ready_reason"`
	Tables      []string    `json:"tables"`

	HeardSecondsAgo *float64       `json:"heard_seconds_ago"` // since Postgres last answered a worker; null before
	Workers         int            `json:"workers"`
	Listening       bool           `json:"listening"` // for notifications, and they arrive
	Backlog         *relay.Backlog `json:"backlog"`   // as of the last query; null before

	Window relay.Window       `json:"window"`
	Halted []*relay.HaltedRow `json:"halted"`
	Waits  []fault.Wait       `json:"waits_for"`
	Counts relay.Counts       `json:"counts"`
	// of the relay's configuration
	Promises sink.Promises `json:"promises,omitempty"`
	// topics that have got partitions since the process started, the latest first
	Grown []relay.Growth `json:"partitions_added,omitempty"`
}

func (r *Relay) setState(s relay.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = r.state.To(s, time.Now())
}

// Status returns the whole picture. It is safe for concurrent use and cheap.
func (r *Relay) Status() Status {
	st := Status{
		Source: "polling", Workers: len(r.workers), Listening: r.listening.Load(), Backlog: r.latest.Load(),
		Waits: []fault.Wait{}, Halted: []*relay.HaltedRow{},
		Window: relay.Window{MaxRecords: r.cfg.WindowRecords, MaxBytes: r.cfg.WindowBytes},
		Counts: relay.Counts{Published: r.published.Load()},
	}
	st.Counts.Skipped, st.Counts.DeadLettered = r.badRows.Counts()
	for _, h := range r.haltedRows() {
		st.Halted = append(st.Halted, &h.HaltedRow)
	}
	for _, t := range r.cfg.Tables {
		st.Tables = append(st.Tables, t.String())
	}
	st.Ready, st.ReadyReason = r.Ready()
	st.Window.Records, st.Window.Bytes = r.window.InUse()
	if heard := r.heard.Load(); heard > 0 {
		ago := time.Since(time.Unix(0, heard)).Seconds()
		st.HeardSecondsAgo = &ago
	}
	r.mu.Lock()
	st.State = r.state
	r.mu.Unlock()
	paused := r.paused.Load()
	switch {
	case paused != nil && st.State.Name != relay.Draining && st.State.Name != relay.Stopped:
		st.State = paused.State()
	case len(st.Halted) > 0 && st.State.Name == relay.Polling:
		h := st.Halted[0]
		st.State = relay.State{
			Name: relay.Halted, Reason: h.Message, Next: h.Next, Commands: h.Commands, Since: h.Since,
		}
	}
	st.Waits = append(st.Waits, r.lockedLanes()...)
	st.Waits = append(st.Waits, r.schemaWaits()...)
	for _, t := range r.producer.Trouble() {
		st.Waits = append(st.Waits, t.Wait())
	}
	for _, g := range r.producer.Grown() {
		st.Grown = append(st.Grown, relay.Growth(g))
	}
	return st
}

// schemaWaits are why rows wait for their schemas.
func (r *Relay) schemaWaits() []fault.Wait {
	if r.cfg.Schemas == nil {
		return nil
	}
	return r.cfg.Schemas.Waits()
}

// watchMetrics registers the gauges read at each scrape, and makes the counters of possible events, so that their first
// increment is one.
func (r *Relay) watchMetrics() {
	r.badRows.Register()
	r.cfg.Metrics.WatchPolling(telemetry.PollingGauges{
		Backlog: func() (float64, float64) {
			b := r.latest.Load()
			if b == nil {
				return 0, 0
			}
			return float64(b.Rows), b.Seconds()
		},
		Halted: func() int { return len(r.haltedRows()) },
		Window: r.window.InUse,
	})
}

// Account is the status for a diagnosis.
func (st Status) Account() relay.Account {
	return relay.Account{
		State: st.State, Waits: st.Waits, Halted: st.Halted, Window: st.Window, Counts: st.Counts, Backlog: st.Backlog,
		HeardSecondsAgo: st.HeardSecondsAgo, Grown: st.Grown,
	}
}

func sortHalted(all []*halt) {
	slices.SortFunc(all, func(a, b *halt) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Position, b.Position))
	})
}

func quoted(name string) string { return identifier.Quote(name) }
