package setup

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// checkPair judges whether publication and slot exist together. Either alone means that something was lost, and
// making the missing one silently would hide a gap in the events.
func checkPair(cfg Config, st state) []preflight.Finding {
	if foreign := cfg.ForeignSlot(st.Slot, st.Server.ServerFacts); foreign != nil {
		return foreign
	}
	switch {
	case st.Publication.Exists && st.Slot.Exists:
		return nil
	case st.Server.InRecovery && !st.Slot.Exists && cfg.HotStandby:
		return []preflight.Finding{standbyPair(cfg, st)}
	case st.Server.InRecovery != cfg.HotStandby && !st.Slot.Exists:
		return checkHotStandby(cfg, st) // the wrong server: nothing is lost, and nothing can be made here
	case st.Slot.Exists:
		return []preflight.Finding{cfg.PublicationLost(st.Slot, st.Server.ServerFacts, st.anyPartitioned())}
	case st.pending(cfg):
		return []preflight.Finding{{
			Level: preflight.Fail, Subject: cfg.SlotSubject(), Found: "A setup made the publication and was " +
				"interrupted before it made the slot, or is still waiting to make it.",
			Why: "Events are kept for the connector from the slot's creation on.", Remedy: "Create the slot.",
			Commands: []string{cfg.SlotDDL()},
		}}
	case st.Publication.Exists:
		return []preflight.Finding{cfg.SlotGone(st.Server.ServerFacts)}
	}
	return []preflight.Finding{{
		Level: preflight.Fail, Subject: cfg.SlotSubject(),
		Found:    fmt.Sprintf("Neither the slot nor %s exists.", cfg.PublicationSubject()),
		Why:      "Events are kept for the connector from the slot's creation on.",
		Remedy:   "Create both: `cdc-outbox setup` does this.",
		Commands: stepCommands(planSetup(cfg.withoutExtras(), st)),
	}}
}

// unread says since when no session reads the slot, as far as that is known; empty where a session does.
func unread(st state) string {
	switch s := st.Slot; {
	case s.ActivePID != 0 || s.Synced && st.Server.InRecovery:
		return ""
	case !s.InactiveSince.IsZero():
		return ", not read since " + human.Time(s.InactiveSince)
	case st.Checkpoint.Confirmed != nil:
		return ", not read now, last confirmed at " + human.Time(*st.Checkpoint.Confirmed)
	}
	return ", not read now"
}

// slotWALLimit is max_slot_wal_keep_size in bytes, nil for no limit.
func (st state) slotWALLimit() *int64 {
	if st.Server.SlotWALKeepMB < 0 {
		return nil
	}
	return new(st.Server.SlotWALKeepMB << 20)
}

// runsOut reports whether the slot is about to be lost.
func (st state) runsOut() bool {
	return postgres.RunsOut(st.Slot.WALStatus, st.Slot.SafeWALSize, st.slotWALLimit())
}

// runningOut is the finding about such a slot.
func runningOut(cfg Config, st state) preflight.Finding {
	f := preflight.Finding{
		Level: preflight.Warn, Subject: cfg.SlotSubject(),
		Found: "Its wal_status is unreserved: it keeps more WAL than max_slot_wal_keep_size allows.",
		Why:   "The next checkpoint may remove WAL it needs, and the slot is lost then.",
	}
	limit, retained := int64(0), int64(0)
	if l := st.slotWALLimit(); l != nil {
		limit = *l
	}
	if safe := st.Slot.SafeWALSize; safe != nil {
		retained = limit - *safe
		if st.Slot.WALStatus != postgres.WALUnreserved {
			f.Found = fmt.Sprintf("%s are left until it keeps more WAL than max_slot_wal_keep_size (%s) allows.",
				size(float64(*safe)), size(float64(limit)))
			f.Why = "The first checkpoint after that may remove WAL it needs, and the slot is lost then."
		}
	}
	return f.With(st.Server.Service.With(st.Server.Service.BuyTime(retained, limit)))
}

// withoutExtras leaves what `run` may create automatically.
func (cfg Config) withoutExtras() Config {
	cfg.TableDDL, cfg.Role, cfg.onlyNeeded = "", "", true
	return cfg
}

func (st state) anyPartitioned() bool {
	for _, t := range st.Tables {
		if t.Partitioned() {
			return true
		}
	}
	return false
}

// checkSlot judges a slot that exists.
func checkSlot(cfg Config, st state) []preflight.Finding {
	s, subject := st.Slot, cfg.SlotSubject()
	if unusable := cfg.UnusableSlot(s, st.Server.ServerFacts); unusable != nil {
		return unusable
	}
	if st.Undecodable != nil {
		return []preflight.Finding{cfg.undecodable(st)}
	}
	out := []preflight.Finding{preflight.Fine(subject, fmt.Sprintf("pgoutput, confirmed up to %s%s.",
		s.ConfirmedFlush, unread(st)))}
	if st.runsOut() {
		out = append(out, runningOut(cfg, st))
	}
	if cfg.Failover && !s.Failover && st.Server.Version >= 170000 {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: subject, Found: "It was created without failover.",
			Why:      "Standbys keep no copy of it; after a promotion the slot is missing.",
			Remedy:   "Change it in a replication connection, such as psql \"replication=database\".",
			Commands: []string{"ALTER_REPLICATION_SLOT " + identifier.Quote(cfg.Slot) + " ( FAILOVER true );"},
		})
	}
	return out
}
