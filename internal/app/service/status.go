package service

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Status is the answer of /status and of status --json: the connector's own account, and the slot as the server shows
// it.
type Status struct {
	connector.Status
	ReplicationSlot *slotmonitor.Slot `json:"replication_slot"` // null: there is none, or it could not be looked at
	Cause           alert.Cause       `json:"cause"`            // why the slot is where it is

	// Why the connector ended, or waits for an operator, if it has not worked again since; null otherwise.
	LastWord *lastword.Word `json:"last_word,omitempty"`

	// When the slot's position was last written, if no session reads the slot and the server (before PostgreSQL 17)
	// does not say since when.
	LastConfirmed *time.Time `json:"last_confirmed,omitempty"`

	Pace *page.Pace `json:"pace"` // null if no connector answers

	// Why this command could not ask Postgres, while the connector answers, which may have no such trouble: the slot is
	// then as the connector saw it last.
	OwnConnection *fault.Wait `json:"own_connection,omitempty"`

	// The promises of the configuration.
	Promises sink.Promises `json:"promises,omitempty"`

	// The stretches of the log whose events may be missing from Kafka, the oldest first; see docs/gaps.md.
	Gaps []gap.Gap `json:"gaps"`

	// The firing alerts, the worst first; none are known if no connector answers.
	Alerts []FiringAlert `json:"alerts"`
}

// FiringAlert adds the URL of the alert's section in the runbook, relative to the page with runbook_url: self.
type FiringAlert struct {
	alert.FiringAlert
	Runbook string `json:"runbook"`
}

func (p *process) alerts(firing []alert.FiringAlert) []FiringAlert {
	all := make([]FiringAlert, 0, len(firing))
	for _, a := range firing {
		all = append(all, FiringAlert{a, p.runbookFromPage(a.Rule)})
	}
	return all
}

// notRunning is the state that status shows when no connector answers.
const notRunning = relay.NotRunning

// Kinds of the waits that status adds to the connector's.
const (
	waitPostgres    = diagnose.PostgresUnreachable
	waitSlotMissing = diagnose.SlotMissing
	waitSlotLost    = slotmonitor.CauseLost
	waitStandby     = diagnose.Standby
)

// unreachable is the wait for a Postgres that cannot be asked, in the words of everything that connects to it.
func unreachable(slot string, err error) fault.Wait {
	w := fault.Wait{
		Kind: waitPostgres, Object: fmt.Sprintf("slot %q", slot),
		Reason: "Postgres cannot be asked about the slot: " + err.Error(),
		Next:   "See whether the server runs and postgres.dsn leads to it.",
	}
	var known *fault.Error
	if errors.As(err, &known) && known.Err != nil {
		w.Object, w.Reason, w.Next, w.Commands = known.Object, known.Err.Error(), known.Next, known.Commands
	}
	return w
}

// withSlot adds the slot, or why there is none, to the connector's status. slot is nil when the server has none.
func withSlot(st connector.Status, slot *slotmonitor.Slot, err error, seen *onset) Status {
	switch {
	case err != nil:
		st.Waits = append(st.Waits, inItsWords(st.State, unreachable(st.Slot, err)))
	case slot == nil:
		st.Waits = append(st.Waits, inItsWords(st.State, aboutSlot(
			st.Slot, waitSlotMissing, "the server has no slot of this name", createMissing(),
		)))
	case slot.WALStatus == slotmonitor.WALLost:
		st.Waits = append(st.Waits, inItsWords(st.State, aboutSlot(
			st.Slot, waitSlotLost, "the server has removed what the slot needs; it can never be read again",
			postgres.ReplaceLost(),
		)))
	}
	seen.date(st.Waits)
	if n := len(st.Waits); n > 0 && st.State.Name == relay.NeedsOperator &&
		strings.HasPrefix(st.State.Reason, st.Waits[n-1].Object) {
		st.State.Since = st.Waits[n-1].Since // one fact, which the monitor may have seen first
	}
	if st.State.Name == relay.WaitingForSlot {
		w := aboutSlot(st.Slot, waitStandby, diagnose.Holder(st.Account(), slot), fault.Remedy{})
		w.Since = st.State.Since
		st.Waits = append(st.Waits, w)
	}
	cause := diagnose.Cause(st.Account(), slot, time.Now())
	if slot != nil {
		told := *slot
		switch slot.Cause.Code {
		case slotmonitor.CauseIdle, slotmonitor.CauseNoConsumer, slotmonitor.CauseLost, slotmonitor.CauseReader:
			// The monitor knows neither the connector's waits nor that the slot is the connector's own.
			told.Cause = cause
		}
		slot = &told
	}
	return Status{Status: st, ReplicationSlot: slot, Cause: cause, Alerts: []FiringAlert{}}
}

func aboutSlot(slot, kind, reason string, next fault.Remedy) fault.Wait {
	return fault.Wait{
		Kind: kind, Object: fmt.Sprintf("slot %q", slot), Reason: reason, Next: next.Next, Commands: next.Commands,
	}
}

// createMissing is the next step where it is not known whether a slot that is missing was there before.
func createMissing() fault.Remedy {
	return fault.Do("If it existed before, see what its loss means. Then create it.", "cdc-outbox check",
		"cdc-outbox setup")
}

// inItsWords gives a wait the words and the time of the connector that has stopped, or cannot stream, because of it:
// its log, /readyz and its last word have them as well.
func inItsWords(st relay.State, w fault.Wait) fault.Wait {
	switch st.Name {
	case relay.NeedsOperator, relay.Reconnecting, relay.Starting:
	default:
		return w
	}
	if !strings.HasPrefix(st.Reason, w.Object) {
		return w
	}
	if _, own, ok := strings.Cut(st.Reason, ": "); ok {
		w.Reason, w.Next, w.Commands, w.Since = own, st.Next, st.Commands, st.Since
	}
	return w
}
