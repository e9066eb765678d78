package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// The codes of causes besides slotmonitor's and the kinds of waits for Kafka (broker_unreachable,
// topic_missing, ...).
const (
	SlotMissing         = "slot_missing"         // the server has no such slot
	PostgresUnreachable = "postgres_unreachable" // it cannot be asked
	BadRow              = "bad_row"              // halted in front of a row
	NotStreaming        = "not_streaming"        // the stream cannot be opened
	Standby             = "standby"              // another instance holds the slot
	OtherConsumer       = "other_consumer"       // no connector answers here, and another process reads the slot
	Stopping            = "stopping"             // asked to stop
	Paused              = "paused"               // an operator asked it to read no more
	NeedsOperator       = "needs_operator"       // stopped by an error; the process stays and looks again
	LargeTransaction    = "large_transaction"    // in the middle of one
	BackPressure        = "back_pressure"        // Kafka takes less than Postgres gives
	Unacknowledged      = "unacknowledged"       // Kafka has not answered yet
	CatchingUp          = "catching_up"          // reading a backlog
	Streaming           = "streaming"            // events are in flight to Kafka
)

// Synchronous is the kind of the wait for a server whose commits wait for the stream. It is never the cause, since the
// slot does not wait for it.
const Synchronous = "synchronous_standby"

// OtherRelay is the kind of the warning that another relay reads the same publication. It is never the cause either.
const OtherRelay = "other_relay"

// PhysicalStandbys is the kind of the wait for standbys that have not flushed a transaction.
const PhysicalStandbys = "physical_standbys"

// RegistryUnreachable and RegistryRefuses are the kinds of the waits for a schema registry.
const (
	RegistryUnreachable = "registry_unreachable"
	RegistryRefuses     = "registry_refuses"
)

const (
	// manyRows make a transaction worth naming: fewer have passed before an operator has read the sentence.
	manyRows = 10_000
	// soonAcked is the time within which Kafka acknowledges when all is well.
	soonAcked = 2 * time.Second
	// backlog is more log than a reader that keeps up leaves unconfirmed between two keepalives.
	backlog = 16 << 20
)

// Cause returns the cause of the slot's wait: the first thing on a row's path that does not let it pass. slot is nil if
// there is none or nothing is known of it.
func Cause(st relay.Account, slot *slotmonitor.Slot, now time.Time) alert.Cause {
	for _, of := range []func(relay.Account, *slotmonitor.Slot, time.Time) (alert.Cause, bool){
		slotGone, unpublished, halted, noStream, kafkaTrouble, large, full, heldBack, unacknowledged, behind,
	} {
		if c, ok := of(st, slot, now); ok {
			if slot != nil {
				return slot.BuyTime(c)
			}
			return c
		}
	}
	if st.Window.Records > 0 {
		return alert.Cause{Code: Streaming, Sentence: fmt.Sprintf("Events are being sent to Kafka: %d in flight.",
			st.Window.Records)}
	}
	return alert.Cause{
		Code:     slotmonitor.CauseIdle,
		Sentence: "There is nothing to send: all that was committed is confirmed.",
	}
}

func slotGone(st relay.Account, _ *slotmonitor.Slot, _ time.Time) (alert.Cause, bool) {
	return waitOf(st, slotmonitor.CauseLost, SlotMissing)
}

// unpublished rows never reach the slot, which then has nothing to wait for.
func unpublished(st relay.Account, _ *slotmonitor.Slot, _ time.Time) (alert.Cause, bool) {
	return waitOf(st, TableUnpublished)
}

// waitOf finds the oldest of the waits of these kinds.
func waitOf(st relay.Account, kinds ...string) (alert.Cause, bool) {
	var oldest *fault.Wait
	for i, w := range st.Waits {
		if slices.Contains(kinds, w.Kind) && (oldest == nil || w.Since.Before(oldest.Since)) {
			oldest = &st.Waits[i]
		}
	}
	if oldest == nil {
		return alert.Cause{}, false
	}
	c := alert.Cause{
		Code: oldest.Kind, Sentence: sentence(oldest.Sentence()),
		Object: oldest.Object, Next: oldest.Next, Commands: oldest.Commands,
	}
	if !oldest.Since.IsZero() {
		c.Since = &oldest.Since
	}
	return c, true
}

func halted(st relay.Account, _ *slotmonitor.Slot, _ time.Time) (alert.Cause, bool) {
	if len(st.Halted) == 0 {
		return alert.Cause{}, false
	}
	h := st.Halted[0]
	return alert.Cause{
		Code:     BadRow,
		Sentence: sentence(fmt.Sprintf("Halted at event %s, LSN %s: %s", h.EventID, h.LSN, h.Message)), Since: &h.Since,
		Object: "event " + h.EventID, Next: h.Next, Commands: h.Commands,
	}, true
}

// noStream is about a connector that does not read.
func noStream(st relay.Account, slot *slotmonitor.Slot, _ time.Time) (alert.Cause, bool) {
	c := alert.Cause{
		Sentence: sentence(st.State.Reason), Object: fmt.Sprintf("slot %q", st.Slot), Next: st.State.Next,
		Commands: st.State.Commands,
	}
	if !st.State.Since.IsZero() {
		c.Since = &st.State.Since
	}
	unreachable, away := waitOf(st, PostgresUnreachable)
	switch st.State.Name {
	case relay.NotRunning:
		switch {
		case away:
			return unreachable, true
		case slot == nil:
			return alert.Cause{}, false
		case !slot.Active:
			return startFirst(slot.Cause), true
		}
		c.Code, c.Since = OtherConsumer, nil
		c.Sentence = otherReader(slot, strings.TrimRight(st.State.Reason, "."))
		c.Next = "Ask the connector that reads it, on its host or at the address of its http.listen."
		c.Commands = []string{"cdc-outbox status"}
	case relay.WaitingForSlot:
		c.Code, c.Sentence = Standby, Holder(st, slot)
	case relay.Draining, relay.Stopped:
		c.Code, c.Sentence = Stopping, "The connector was asked to stop."
	case relay.NeedsOperator:
		c.Code = NeedsOperator
	case relay.Paused:
		c.Code = Paused
	case relay.Starting, relay.Reconnecting:
		c.Code = NotStreaming
		if away {
			c.Code, c.Object = PostgresUnreachable, unreachable.Object
		}
		if st.State.Reason == "" {
			c.Sentence = "The stream from Postgres is being opened."
		}
	default:
		return unreachable, away
	}
	return c, true
}

// otherReader says who reads the slot if no connector answers here, and why none does.
func otherReader(slot *slotmonitor.Slot, why string) string {
	r := slot.Reader
	if r == nil || r.Application != "cdc-outbox/"+slot.Name {
		return fmt.Sprintf("The slot is read by pid %d, and no connector answers here: %s.", slot.PID, why)
	}
	from := ""
	if r.Client != "" {
		from = " from " + r.Client
	}
	return fmt.Sprintf("A connector runs elsewhere: it reads the slot%s (pid %d, application %q). Here %s.", from,
		slot.PID, r.Application, why)
}

// startFirst is for the connector's own slot without a reader. The monitor, which knows nothing of a slot's purpose,
// offers to drop it; the events that this one holds would go with it.
func startFirst(c alert.Cause) alert.Cause {
	if c.Code == slotmonitor.CauseNoConsumer {
		c.Next = "Start the connector. If it ended automatically, the last line of its log says why and what to do."
		c.Commands = []string{"cdc-outbox run"}
	}
	return c
}

// Holder names the holder of a waiting instance's slot, and says when the instance takes over.
func Holder(st relay.Account, slot *slotmonitor.Slot) string {
	if slot == nil || !slot.Active {
		return sentence(st.State.Reason)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Another instance holds the slot: backend %d", slot.PID)
	if r := slot.Reader; r != nil {
		if r.Application != "" {
			fmt.Fprintf(&b, ", application %q", r.Application)
		}
		if r.Client != "" {
			fmt.Fprintf(&b, ", from %s", r.Client)
		}
		if r.Since != nil {
			fmt.Fprintf(&b, ", since %s", human.Time(*r.Since))
		}
	}
	b.WriteString(". This instance waits, checks every second, and takes over when the holder ends; where the " +
		"holder hangs or is cut off, when the server has missed it for wal_sender_timeout (10 s unless postgres.dsn " +
		"says otherwise).")
	return b.String()
}

// kafkaTrouble is anything the producer waits for, the oldest first.
func kafkaTrouble(st relay.Account, _ *slotmonitor.Slot, _ time.Time) (alert.Cause, bool) {
	var kinds []string
	for _, w := range st.Waits {
		if w.Kind == Synchronous || w.Kind == OtherRelay {
			continue
		}
		kinds = append(kinds, w.Kind) // those about the slot were looked at before
	}
	return waitOf(st, kinds...)
}

// large comes before full: a transaction larger than the window fills it however fast Kafka is.
func large(st relay.Account, _ *slotmonitor.Slot, now time.Time) (alert.Cause, bool) {
	if st.Open == nil || st.Open.Rows < manyRows {
		return alert.Cause{}, false
	}
	text := fmt.Sprintf("In the middle of a large transaction that commits at %s: %d rows of it were read so far; "+
		"the slot passes it when all are acknowledged.",
		st.Open.CommitLSN, st.Open.Rows)
	return alert.Cause{
		Code: LargeTransaction, Sentence: text, Since: committed(st, now),
		Object: "transaction at " + st.Open.CommitLSN,
	}, true
}

// committed is the commit time of the oldest transaction that is not confirmed.
func committed(st relay.Account, now time.Time) *time.Time {
	if st.OldestUnconfirmedSeconds <= 0 {
		return nil
	}
	t := now.Add(-time.Duration(st.OldestUnconfirmedSeconds * float64(time.Second))).UTC().Round(time.Millisecond)
	return &t
}

func full(st relay.Account, _ *slotmonitor.Slot, now time.Time) (alert.Cause, bool) {
	if !st.WindowFull {
		return alert.Cause{}, false
	}
	return alert.Cause{
		Code: BackPressure, Since: committed(st, now), Object: "window",
		Sentence: fmt.Sprintf("Reading waits for Kafka, which acknowledges more slowly than Postgres sends; in flight "+
			"are %d of %d records, %s of %s.", st.Window.Records, st.Window.MaxRecords,
			size(st.Window.Bytes), size(st.Window.MaxBytes)),
		Next: "Look at cdc_outbox_producer_request_seconds and the brokers' load. A larger window helps only over a " +
			"long connection to Kafka.",
	}, true
}

// heldBack is a transaction that is still open somewhere on the server: the reader has all there is to read.
func heldBack(_ relay.Account, slot *slotmonitor.Slot, _ time.Time) (alert.Cause, bool) {
	if slot == nil || slot.Cause.Code != slotmonitor.CauseOpenTransaction {
		return alert.Cause{}, false
	}
	return slot.Cause, true
}

func unacknowledged(st relay.Account, _ *slotmonitor.Slot, now time.Time) (alert.Cause, bool) {
	if st.Window.Records == 0 || st.OldestUnconfirmedSeconds < soonAcked.Seconds() {
		return alert.Cause{}, false
	}
	return alert.Cause{Code: Unacknowledged, Since: committed(st, now), Object: "kafka", Sentence: fmt.Sprintf(
		"Kafka has not acknowledged everything of a transaction that was committed %s ago; %d records are in flight.",
		human.Duration(time.Duration(st.OldestUnconfirmedSeconds*float64(time.Second))), st.Window.Records)}, true
}

func behind(_ relay.Account, slot *slotmonitor.Slot, _ time.Time) (alert.Cause, bool) {
	if slot == nil || slot.UnconfirmedBytes < backlog {
		return alert.Cause{}, false
	}
	return alert.Cause{
		Code: CatchingUp, Since: slot.ConfirmedSince, Object: fmt.Sprintf("slot %q", slot.Name),
		Sentence: fmt.Sprintf("Reading a backlog: %s of WAL are left to confirm.", size(slot.UnconfirmedBytes)),
	}, true
}

func size(bytes int64) string { return human.Bytes(float64(bytes)) }

// sentence ends with a full stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
