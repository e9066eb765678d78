package service

import (
	"errors"
	"fmt"
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
	Alerts []firingAlert `json:"alerts"`
}

// firingAlert adds the URL of the alert's section in the runbook, relative to the page with runbook_url: self.
type firingAlert struct {
	alert.FiringAlert
	Runbook string `json:"runbook"`
}

func (p *process) alerts(firing []alert.FiringAlert) []firingAlert {
	all := make([]firingAlert, 0, len(firing))
	for _, a := range firing {
		all = append(all, firingAlert{a, p.runbookFromPage(a.Rule)})
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
		Next:   "See whether the server runs and postgres.dsn leads to it.", Since: time.Now().UTC(),
	}
	var known *fault.Error
	if errors.As(err, &known) && known.Err != nil {
		w.Object, w.Reason, w.Next, w.Commands = known.Object, known.Err.Error(), known.Next, known.Commands
	}
	return w
}

// withSlot adds the slot, or why there is none, to the connector's status. slot is nil when the server has none.
func withSlot(st connector.Status, slot *slotmonitor.Slot, err error) Status {
	wait := func(kind, reason, next string) {
		st.Waits = append(st.Waits, fault.Wait{
			Kind: kind, Object: fmt.Sprintf("slot %q", st.Slot), Reason: reason, Next: next, Since: time.Now().UTC(),
		})
	}
	if st.State.Name == relay.WaitingForSlot {
		wait(waitStandby, diagnose.Holder(st.Account(), slot), "")
		st.Waits[len(st.Waits)-1].Since = st.State.Since
	}
	switch {
	case err != nil:
		st.Waits = append(st.Waits, unreachable(st.Slot, err))
	case slot == nil:
		wait(
			waitSlotMissing, "the server has no slot of this name",
			"`cdc-outbox check` says what is missing and how to fix it.",
		)
	case slot.WALStatus == slotmonitor.WALLost:
		wait(
			waitSlotLost, "the server has removed what the slot needs; it can never be read again",
			postgres.ReplaceLost().Next,
		)
		st.Waits[len(st.Waits)-1].Commands = postgres.ReplaceLost().Commands
	}
	cause := diagnose.Cause(st.Account(), slot, time.Now())
	if slot != nil {
		told := *slot
		switch slot.Cause.Code {
		case slotmonitor.CauseIdle, slotmonitor.CauseNoConsumer, slotmonitor.CauseLost:
			// The monitor knows neither the connector's waits nor that the slot is the connector's own.
			told.Cause = cause
		}
		slot = &told
	}
	return Status{Status: st, ReplicationSlot: slot, Cause: cause, Alerts: []firingAlert{}}
}
