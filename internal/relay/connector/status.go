package connector

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Status is the answer of /status. Times are UTC; LSNs are in the form Postgres prints, empty if unknown.
type Status struct {
	State       relay.State `json:"state"`
	Ready       bool        `json:"ready"`
	ReadyReason string      `json:"ready_reason"`

	Slot        string `json:"slot"`
	Publication string `json:"publication"`
	Server      Server `json:"server"`

	ConfirmedLSN string `json:"confirmed_lsn"`
	ReceivedLSN  string `json:"received_lsn"`
	// since the last byte from Postgres, also of a stream that broke; null before the first
	HeardSecondsAgo *float64 `json:"heard_seconds_ago"`
	// age of the oldest unconfirmed transaction with events
	OldestUnconfirmedSeconds float64 `json:"oldest_unconfirmed_seconds"`

	Window Window           `json:"window"`
	Open   *relay.OpenTx    `json:"open_transaction,omitempty"`
	Halted *relay.HaltedRow `json:"halted,omitempty"`
	Waits  []fault.Wait     `json:"waits_for"` // oldest first; empty when nothing is wrong

	// of the rows that were there before the slot, while they are published
	Snapshot *SnapshotStatus `json:"snapshot,omitempty"`

	Counts Counts `json:"counts"`
	// acknowledged since the process started, the largest first, twenty at most
	Topics []telemetry.TopicCount `json:"topics"`
	// topics that have got partitions since the process started, the latest first
	Grown []relay.Growth `json:"partitions_added,omitempty"`
	// the latest rows that were dead-lettered or skipped, the latest first, twenty at most
	Aside []relay.BadRow `json:"set_aside"`
}

// Server is the Postgres server of the current or last stream.
type Server struct {
	SystemID   string `json:"system_id"`
	Timeline   int32  `json:"timeline"`
	Database   string `json:"database"`
	Version    string `json:"version"`
	HotStandby bool   `json:"standby"` // it was one when the stream was opened
}

// Window is the in-flight window.
type Window struct {
	relay.Window
	Full bool `json:"full"` // reading pauses until Kafka acknowledges
}

// Counts are totals since the process started.
type Counts struct {
	relay.Counts
	Covered   uint64 `json:"covered"`  // rows that an earlier instance had committed to Kafka: not published again
	Repeated  uint64 `json:"repeated"` // rows that were sent again after a reconnect and were already in flight
	Foreign   uint64 `json:"foreign"`  // rows of tables other than the outbox: passed over
	Updates   uint64 `json:"updates"`  // UPDATEs of outbox rows: not published
	Deletes   uint64 `json:"deletes"`
	Truncates uint64 `json:"truncates"`
	Messages  uint64 `json:"logical_messages"` // of prefixes that are not configured
	Other     uint64 `json:"other"`            // messages of kinds this version does not know
}

// counts is Counts as it is counted.
type counts struct {
	published, covered, repeated, foreign, updates, deletes, truncates, messages, other atomic.Uint64
}

// add counts a message that carries no event.
func (c *counts) add(m *pgoutput.Message) {
	switch m.Kind {
	case pgoutput.KindUpdate:
		c.updates.Add(1)
	case pgoutput.KindDelete:
		c.deletes.Add(1)
	case pgoutput.KindTruncate:
		c.truncates.Add(1)
	case pgoutput.KindOther:
		c.other.Add(1)
	}
}

func (c *counts) read(skipped, deadLettered uint64) Counts {
	return Counts{
		Counts:  relay.Counts{Published: c.published.Load(), Skipped: skipped, DeadLettered: deadLettered},
		Covered: c.covered.Load(), Repeated: c.repeated.Load(), Foreign: c.foreign.Load(),
		Updates: c.updates.Load(), Deletes: c.deletes.Load(), Truncates: c.truncates.Load(),
		Messages: c.messages.Load(), Other: c.other.Load(),
	}
}

// Status returns the whole picture. It is safe for concurrent use and cheap.
func (c *Connector) Status() Status {
	st := Status{
		Slot: c.cfg.Replication.Slot, Publication: c.cfg.Replication.Publication,
		Waits: []fault.Wait{}, Counts: c.counts.read(c.badRows.Counts()), Topics: c.cfg.Metrics.Topics(20),
		Aside:  c.badRows.Latest(),
		Window: Window{Window: relay.Window{MaxRecords: c.cfg.WindowRecords, MaxBytes: c.cfg.WindowBytes}},
	}
	st.Ready, st.ReadyReason = c.Ready()
	st.Window.Records, st.Window.Bytes = c.window.InUse()
	st.Window.Full = c.window.Full() || c.pausing.Load()
	c.mu.Lock()
	st.State, st.Halted = c.state, c.halted
	id, s, series := c.identity, c.stream, c.barren
	c.mu.Unlock()
	st.Server = Server{
		SystemID: id.SystemID, Timeline: id.Timeline, Database: id.Database,
		Version: serverVersion(id.ServerVersion), HotStandby: id.InRecovery,
	}
	st.Waits = append(st.Waits, heldBack(s)...)
	if received, _ := c.lastOfStream(); series.lasts(c.mark(), received) {
		st.Waits = append(st.Waits, series.wait(c.slot()))
	}
	if received, heard := c.lastOfStream(); !heard.IsZero() {
		ago := time.Since(heard).Seconds()
		st.ReceivedLSN, st.HeardSecondsAgo = received.String(), &ago
	}
	if t := c.tracker.Load(); t != nil {
		st.ConfirmedLSN = t.Confirmed().String()
		st.OldestUnconfirmedSeconds = c.oldestUnconfirmed().Seconds()
		if now := t.Snapshot(); now.Open != 0 {
			st.Open = &relay.OpenTx{CommitLSN: now.Open.String(), Rows: int(now.OpenRows)}
		}
	}
	st.Snapshot = c.snapshot.status()
	st.Waits = append(st.Waits, c.standbyWaits()...)
	st.Waits = append(st.Waits, c.schemaWaits()...)
	for _, t := range c.producer.Trouble() {
		st.Waits = append(st.Waits, t.Wait())
	}
	for _, g := range c.producer.Grown() {
		st.Grown = append(st.Grown, relay.Growth(g))
	}
	return st
}

// Account is the status for a diagnosis.
func (st Status) Account() relay.Account {
	a := relay.Account{
		State: st.State, Waits: st.Waits, Window: st.Window.Window, Counts: st.Counts.Counts,
		Grown: st.Grown, Slot: st.Slot, WindowFull: st.Window.Full, Open: st.Open,
		OldestUnconfirmedSeconds: st.OldestUnconfirmedSeconds, HeardSecondsAgo: st.HeardSecondsAgo,
	}
	if st.Halted != nil {
		a.Halted = []*relay.HaltedRow{st.Halted}
	}
	return a
}

// WaitMemory is the kind of the wait for the table that remembers the slot's position.
const WaitMemory = "position_not_remembered"

// heldBack is why less is confirmed to the slot than Kafka has acknowledged.
func heldBack(s stream) []fault.Wait {
	if s == nil {
		return nil
	}
	since, why := s.HeldBack()
	var f *fault.Error
	if since.IsZero() || !errors.As(why, &f) {
		return nil
	}
	return []fault.Wait{{
		Kind: WaitMemory, Object: f.Object, Reason: strings.ReplaceAll(f.Err.Error(), "\n", "; "),
		Next: f.Next, Commands: f.Commands, Since: since,
	}}
}

// serverVersion turns server_version_num into the version's usual name: 150018 is 15.18.
func serverVersion(num int) string {
	if num == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", num/10000, num%10000)
}

// gauges are the same figures for Prometheus.
func (c *Connector) gauges() telemetry.Gauges {
	return telemetry.Gauges{
		ConfirmedLSN:      func() uint64 { return uint64(c.confirmed()) },
		ReceivedLSN:       func() uint64 { received, _ := c.lastOfStream(); return uint64(received) },
		OldestUnconfirmed: c.oldestUnconfirmed,
		Window:            c.window.InUse,
	}
}

func (c *Connector) oldestUnconfirmed() time.Duration {
	t := c.tracker.Load()
	if t == nil {
		return 0
	}
	if _, oldest, ok := t.Outstanding(); ok {
		return max(0, c.serverNow().Sub(oldest))
	}
	if committed, ok := c.heldTransaction(); ok {
		return max(0, c.serverNow().Sub(committed))
	}
	return 0
}
