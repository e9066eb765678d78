package slotmonitor

import (
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// The codes of causes that the server alone can tell.
const (
	CauseIdle            = "idle"             // nothing waits
	CauseLost            = "slot_lost"        // it can never be read again
	CauseStandbyCopy     = "standby_copy"     // moves with the primary's slot
	CauseOpenTransaction = "open_transaction" // restart_lsn cannot pass a transaction that is not over
	CauseNoConsumer      = "no_consumer"      // no process reads the slot
	CauseReader          = "reader_behind"    // its reader has not confirmed what it got
)

// little is how much log a slot holds back when all is well: restart_lsn moves in steps.
const little = 1 << 20

// cause finds in the slot's figures why log is held back. The two positions show it: a restart_lsn before
// confirmed_flush_lsn waits for a transaction to end, a confirmed_flush_lsn before the present waits for the reader.
func cause(s Slot) alert.Cause {
	slot := fmt.Sprintf("slot %q", s.Name)
	switch {
	case s.WALStatus == WALLost && s.Synced: // the server refuses to drop it here, and the primary's may be fine
		return alert.Cause{
			Code:     CauseLost,
			Sentence: "It is a standby's copy of the primary's slot, and the standby has removed what it needs.",
			Object:   slot,
			Next:     "See whether the primary's slot can be read: the standby then copies it again automatically.",
		}
	case s.WALStatus == WALLost:
		return alert.Cause{
			Code:     CauseLost,
			Sentence: "The server has removed what the slot needs; it can never be read again.", Object: slot,
			Next: "Make it again with the tool of its reader, and send the missed events again: for a cdc-outbox " +
				"connector, `cdc-outbox slot recreate` with its configuration. If no process is to read it, drop it.",
			Commands: []string{dropSlot(s.Name)},
		}
	case s.Synced:
		return alert.Cause{
			Code:     CauseStandbyCopy,
			Sentence: "It is a standby's copy and moves with the primary's slot.", Object: slot,
		}
	case s.HeldBy != nil && s.RetainedBytes >= little && s.UnconfirmedBytes < s.RetainedBytes/2:
		return s.HeldBy.cause()
	case !s.Active && s.InactiveAtLeast:
		return alert.Cause{
			Code: CauseNoConsumer, Sentence: "No session reads the slot; " + s.UnknownSince() + ".", Object: slot,
		}.With(s.unread())
	case !s.Active && s.InactiveSince != nil:
		return alert.Cause{
			Code: CauseNoConsumer, Sentence: fmt.Sprintf("No session has read the slot since %s (%s).",
				human.Time(*s.InactiveSince),
				human.Duration(s.SampledAt.Sub(*s.InactiveSince))), Since: s.InactiveSince, Object: slot,
		}.With(s.unread())
	case s.UnconfirmedBytes >= little:
		who := fmt.Sprintf("pid %d", s.PID)
		if s.Reader != nil && s.Reader.Application != "" {
			who += fmt.Sprintf(", application %q", s.Reader.Application)
		}
		return alert.Cause{
			Code: CauseReader, Sentence: fmt.Sprintf("Its reader (%s) has %s left to confirm.", who,
				size(s.UnconfirmedBytes)),
			Since: s.ConfirmedSince, Object: fmt.Sprintf("pid %d", s.PID),
			Next: "See why the reader makes no progress.",
		}
	}
	return alert.Cause{Code: CauseIdle, Sentence: "Nothing waits: all that its reader needs is confirmed."}
}

// UnknownSince says of a slot with InactiveAtLeast since when no session reads it.
func (s *Slot) UnknownSince() string {
	if age := s.SampledAt.Sub(*s.InactiveSince); age >= time.Second {
		return "since when is not known, for " + human.Duration(age) + " at least"
	}
	return "since when is not known"
}

// abandonedAfter is how long no session has read a slot before its end is offered. A reader that is being deployed, or
// repaired, is back sooner, and a command that is offered is pasted.
const abandonedAfter = 6 * time.Hour

// unread is the remedy for a slot that no session reads.
func (s *Slot) unread() fault.Remedy {
	if s.SampledAt.Sub(*s.InactiveSince) < abandonedAfter {
		return fault.Do("Start its reader.")
	}
	return fault.Do("Start its reader. If no process is ever to read it again, drop the slot; its reader would miss "+
		"all that it has not read.", dropSlot(s.Name))
}

func dropSlot(name string) string {
	return fmt.Sprintf("SELECT pg_catalog.pg_drop_replication_slot('%s');", quoted(name))
}

// cause names the transaction and how to end it. Only a person can know whether it may be ended.
func (t *Transaction) cause() alert.Cause {
	c := alert.Cause{
		Code: CauseOpenTransaction, Sentence: "Held back by " + t.String() + ".", Since: &t.Since,
		Object: fmt.Sprintf("pid %d", t.PID),
	}.With(t.remedy())
	if t.PID == 0 {
		c.Object = fmt.Sprintf("prepared transaction %q", t.GID)
	}
	return c
}

func (t *Transaction) remedy() fault.Remedy {
	if t.PID == 0 {
		return fault.Do(fmt.Sprintf("Commit it or roll it back, in database %q.", t.Database),
			fmt.Sprintf("COMMIT PREPARED '%s';", quoted(t.GID)), fmt.Sprintf("ROLLBACK PREPARED '%s';", quoted(t.GID)))
	}
	return fault.Do("End it in its application, or end its session.", fmt.Sprintf("SELECT "+
		"pg_catalog.pg_terminate_backend(%d);", t.PID))
}

// quoted doubles the quotes of a text within quotes in SQL.
func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }
