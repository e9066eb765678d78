package postgres

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// The judgements here are pure: what the catalog shows goes in, a finding comes out. The stream, setup and check share
// them, so that one fault has one text wherever it is met.

// firstHotStandby is the first version that decodes on hot standbys (Postgres docs 47.2.2).
const firstHotStandby = 160000

// ForeignSlot finds a slot of this name that cannot be the relay's. It is judged before everything else, and nothing
// else is judged then: Postgres lets every role that may replicate drop any slot of the server, another database's as
// well, and with it the events that its owner has not read yet. So no remedy may drop it.
func (o Objects) ForeignSlot(slot Slot, server ServerFacts) []preflight.Finding {
	found, why := "", ""
	switch {
	case !slot.Exists:
		return nil
	case !slot.Logical:
		found = "It is a physical slot"
		why = "A standby or a backup uses it. Slot names are shared by everything on a server."
	case slot.Database != server.Database:
		found = fmt.Sprintf("It belongs to database %q, the connection goes to %q", slot.Database, server.Database)
		why = "A slot reads one database, and slot names are shared by all databases of a server."
	case slot.Plugin != "pgoutput":
		found = fmt.Sprintf("Its plugin is %q", slot.Plugin)
		why = "Another program uses it: the connector reads pgoutput only, and a slot's plugin cannot be changed."
	default:
		return nil
	}
	if slot.ActivePID != 0 {
		found += fmt.Sprintf(", and process %d of the server is reading it", slot.ActivePID)
	}
	remedy := "Set postgres.slot to another name."
	if slot.Logical && slot.Database != server.Database {
		remedy = "Set postgres.slot to another name, or correct the database in postgres.dsn."
	}
	return []preflight.Finding{
		{Level: preflight.Fail, Subject: o.SlotSubject(), Found: found + ".", Why: why, Remedy: remedy},
	}
}

// UnusableSlot finds what keeps an existing slot from being read.
func (o Objects) UnusableSlot(slot Slot, server ServerFacts) []preflight.Finding {
	if foreign := o.ForeignSlot(slot, server); foreign != nil {
		return foreign
	}
	f := preflight.Finding{Level: preflight.Fail, Subject: o.SlotSubject()}
	switch {
	case slot.Invalidated():
		f = o.SlotInvalidated(slot, server)
	case slot.Temporary:
		f.Found, f.Why = "It is temporary.", "It vanishes with the session that made it."
		f.Remedy = "Set postgres.slot to another name."
	case slot.Synced && server.InRecovery:
		f.Found, f.Why = "It is a standby's copy of the primary's slot.",
			"It can be read only after the standby is promoted."
		f.Remedy = "Let postgres.dsn lead to the primary."
	case slot.TwoPhase:
		f.Found = "It was created with two_phase."
		f.Why = "Rows of prepared transactions would be sent before they are committed, and a rollback could not " +
			"take them back."
		f = f.With(fault.Do("Create it without two_phase: stop the writers, let the connector catch up, then "+
			"replace the slot.",
			o.DropSlotSQL(), o.SlotDDL()))
	default:
		return nil
	}
	return []preflight.Finding{f}
}

// SlotGone is the finding for a slot that no longer exists while its publication does.
func (o Objects) SlotGone(server ServerFacts) preflight.Finding {
	return preflight.Finding{
		Level: preflight.Fail, Subject: o.SlotSubject(),
		Found: fmt.Sprintf("It no longer exists, while %s that it read is still there.", o.PublicationSubject()),
		Why: "It was dropped, or the server was restored or failed over to a standby without it. A new slot starts " +
			"at its creation: rows committed between the last published event and then come through no slot.",
	}.With(o.replaceGone(server).Then(fault.Do("If the slot is new, and another relay's publication is there " +
		"already, `cdc-outbox setup --new-slot` creates it instead.")))
}

// replaceGone is ReplaceLost, with what creating a slot on a hot standby waits for.
func (o Objects) replaceGone(server ServerFacts) fault.Remedy {
	r := ReplaceLost()
	if o.OnHotStandby(server) {
		r.Next += fmt.Sprintf(" Replacing it on the standby waits until the primary logs its running transactions, by "+
			"the last command on %s.", server.PrimaryName())
		r.Commands = append(r.Commands, LogSnapshotSQL)
	}
	return r
}

// keepRows keeps VACUUM on the primary from removing rows that decoding on the hot standby needs.
const keepRows = "Before that, set hot_standby_feedback = on on the standby, and name a physical slot of the " +
	"primary in the standby's primary_slot_name; `cdc-outbox check` looks at both."

// SlotInvalidated is the finding for a slot that Postgres has invalidated.
func (o Objects) SlotInvalidated(slot Slot, server ServerFacts) preflight.Finding {
	reason := "its WAL was removed because it grew beyond max_slot_wal_keep_size"
	advice := "Raise max_slot_wal_keep_size so that it lasts longer than an outage."
	switch {
	case slot.InvalidationReason == "rows_removed":
		reason, advice = "recovery on the standby has removed catalog rows it needs (rows_removed)", keepRows
	case slot.InvalidationReason == "wal_level_insufficient":
		reason = "wal_level was set below logical (wal_level_insufficient)"
		advice = "Set wal_level = logical again, for a standby on the primary, and restart that server."
	case slot.InvalidationReason == "idle_timeout":
		reason, advice = "no session read it for longer than idle_replication_slot_timeout (idle_timeout)",
			"Raise idle_replication_slot_timeout."
	// 16 does not say which; on a primary it is always WAL
	case slot.Conflicting && slot.InvalidationReason == "" && server.InRecovery:
		reason = "recovery on the standby has removed catalog rows it needs, or wal_level was set below logical on " +
			"the primary"
		advice = keepRows
	}
	return preflight.Finding{
		Level: preflight.Fail, Subject: o.SlotSubject(),
		Found: fmt.Sprintf("Postgres has invalidated it: %s. It was confirmed up to %s.", reason, slot.ConfirmedFlush),
		Why:   "It can never be read again. Rows committed after that position come through no slot.",
	}.With(fault.Do(advice).Then(ReplaceLost()))
}

// PublicationLost is the finding for a publication that no longer exists while its slot does. pgoutput looks a
// publication up in the catalog as of the row it decodes. What was written while there was none fails to decode for
// ever, whatever is created later; from 18 on such rows are left out instead, with nothing but a warning to the client
// (LoadPublications in pgoutput.c).
func (o Objects) PublicationLost(slot Slot, server ServerFacts, partitioned bool) preflight.Finding {
	return preflight.Finding{
		Level: preflight.Fail, Subject: o.PublicationSubject(),
		Found: fmt.Sprintf("It no longer exists, while %s that reads it is still there, confirmed up to %s.",
			o.SlotSubject(), slot.ConfirmedFlush),
		Why: "Rows are decoded with the publication as it was when they were written: what was written while it was " +
			"missing cannot be read from this slot, and creating it again does not change that.",
	}.With(o.RenewBoth(server, partitioned))
}

// RenewBoth replaces the slot and creates the publication again, on a standby's primary by hand.
func (o Objects) RenewBoth(server ServerFacts, partitioned bool) fault.Remedy {
	r := fault.Do("If the slot is not this connector's, set postgres.slot to another name.")
	if server.InRecovery {
		r = r.Then(fault.Do("Create the publication, on the primary.", o.PublicationDDL(partitioned)))
	}
	return r.Then(ReplaceLost())
}

// WrongRole finds a server whose role, primary or hot standby, is not the configured one.
func (o Objects) WrongRole(server ServerFacts, slotExists bool) []preflight.Finding {
	f := preflight.Finding{Level: preflight.Fail, Subject: "server"}
	switch {
	case server.InRecovery == o.HotStandby && (!server.InRecovery || server.Version >= firstHotStandby):
		return nil
	case !server.InRecovery && slotExists:
		f.Level = preflight.Warn
		f.Found = "It is not a standby, and postgres.hot_standby is set."
		f.Why = "The slot there goes on as a primary's does; this server was promoted, or postgres.dsn leads to " +
			"another one."
		f.Remedy = "Set postgres.hot_standby to false if that is to stay so, otherwise correct postgres.dsn."
	case !server.InRecovery:
		f.Found = "It is not a standby, and has no slot of that name."
		f.Why = "postgres.hot_standby is set, so the slot is on another server, which keeps what was committed " +
			"meanwhile."
		f.Remedy = "Set postgres.hot_standby to false if that is to stay so, otherwise correct postgres.dsn."
	case server.Version < firstHotStandby:
		f.Found, f.Why = fmt.Sprintf("It is a standby of PostgreSQL %s.", server.VersionText),
			"Logical slots on standbys exist from 16 on."
		f.Remedy = "Let postgres.dsn lead to the primary: several hosts and target_session_attrs=read-write."
	default:
		f.Found = "It is a standby."
		if !slotExists {
			f.Found = "It is a standby, and has no slot of that name."
		}
		f.Why = "Publication and slot are made on the primary; that the slot is missing here does not mean that " +
			"it is lost."
		f.Remedy = "Let postgres.dsn lead to the primary: several hosts and target_session_attrs=read-write. " +
			"To read from the standby on purpose, set postgres.hot_standby: true."
	}
	return []preflight.Finding{f}
}
