package replication

import (
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
)

// checkPair judges whether publication and slot exist together. Either alone means that something was lost, and
// making the missing one silently would hide a gap in the events.
func checkPair(cfg AdminConfig, st setupState) []preflight.Finding {
	if foreign := foreignSlot(cfg, st); foreign != nil {
		return foreign
	}
	switch {
	case st.Publication.Exists && st.Slot.Exists:
		return nil
	case st.Server.InRecovery && !st.Slot.Exists && cfg.Standby:
		return []preflight.Finding{standbyPair(cfg, st)}
	case st.Server.InRecovery != cfg.Standby && !st.Slot.Exists:
		return checkStandby(cfg, st) // the wrong server: nothing is lost, and nothing can be made here
	case st.Slot.Exists:
		return []preflight.Finding{publicationLost(cfg, st)}
	case st.pending(cfg):
		return []preflight.Finding{{
			Level: preflight.Fail, Subject: slotSubject(cfg), Found: "A setup made the publication and was interrupted before it made the slot, or is still waiting to make it.",
			Why: "Events are kept for the connector from the slot's creation on.", Remedy: slotDDL(cfg),
		}}
	case st.Publication.Exists:
		return []preflight.Finding{slotGone(cfg, st)}
	}
	return []preflight.Finding{{
		Level: preflight.Fail, Subject: slotSubject(cfg), Found: fmt.Sprintf("Neither the slot nor %s exists.", publicationSubject(cfg)),
		Why:    "Events are kept for the connector from the slot's creation on.",
		Remedy: stepsSQL(planSetup(cfg.withoutExtras(), st)),
	}}
}

// foreignSlot tells of a slot of this name that cannot be this connector's. It is judged before everything else, and nothing
// else is judged then: Postgres lets whoever may replicate drop any slot of the server, another database's as well, and with
// it the events that its owner has not read yet. So no remedy may drop it.
func foreignSlot(cfg AdminConfig, st setupState) []preflight.Finding {
	s := st.Slot
	found, why := "", ""
	switch {
	case !s.Exists:
		return nil
	case !s.Logical:
		found, why = "It is a physical slot", "Somebody else's: a standby or a backup uses it. Slot names are shared by everything on a server."
	case s.Database != st.Server.Database:
		found = fmt.Sprintf("It belongs to database %q, the connection goes to %q", s.Database, st.Server.Database)
		why = "A slot reads one database, and slot names are shared by all databases of a server."
	case s.Plugin != "pgoutput":
		found, why = fmt.Sprintf("Its plugin is %q", s.Plugin), "Somebody else's: the connector reads pgoutput only, and a slot's plugin cannot be changed."
	default:
		return nil
	}
	if s.ActivePID != 0 {
		found += fmt.Sprintf(", and process %d of the server is reading it", s.ActivePID)
	}
	remedy := "Set postgres.slot to another name."
	if s.Logical && s.Database != st.Server.Database {
		remedy = "Set postgres.slot to another name, or correct the database in postgres.dsn."
	}
	return []preflight.Finding{{Level: preflight.Fail, Subject: slotSubject(cfg), Found: found + ".", Why: why, Remedy: remedy}}
}

// withoutExtras leaves what `run` may create by itself.
func (cfg AdminConfig) withoutExtras() AdminConfig {
	cfg.TableDDL, cfg.Role, cfg.onlyNeeded = "", "", true
	return cfg
}

// publicationLost: pgoutput looks a publication up in the catalog as of the row it decodes. What was written while
// there was none fails to decode for ever, whatever is created later; from 18 on it is left out instead, with nothing
// but a warning to the client (LoadPublications in pgoutput.c).
func publicationLost(cfg AdminConfig, st setupState) preflight.Finding {
	renewed := cfg.withoutExtras()
	return preflight.Finding{
		Level: preflight.Fail, Subject: publicationSubject(cfg),
		Found: fmt.Sprintf("It is gone, while %s that reads it is still there, confirmed up to %s.", slotSubject(cfg), st.Slot.ConfirmedFlush),
		Why: "Rows are decoded with the publication as it was when they were written: what was written while it was missing cannot be read from this slot, " +
			"and creating it again does not change that.",
		Remedy: strings.Join([]string{
			"-- if the slot is not this connector's, set postgres.slot to another name instead",
			fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", identifier.QuoteLiteral(cfg.Slot)),
			publicationDDL(renewed, st.anyPartitioned()),
			renewSlot(renewed, st),
			republish(renewed, cfg.Tables...),
		}, "\n"),
	}
}

func (st setupState) anyPartitioned() bool {
	for _, t := range st.Tables {
		if t.partitioned() {
			return true
		}
	}
	return false
}

// republish says how rows come once more. As a comment: somebody has to fill in the time. Deleting and inserting keeps
// the ids, and of the two only the insert is published. created_at is set when a transaction begins, and rows are
// published in the order of commits, so the two may lie apart by as long as transactions last. OVERRIDING SYSTEM VALUE lets
// the values of an identity column be kept (Postgres docs, INSERT), and says nothing where there is none.
func republish(cfg AdminConfig, tables ...identifier.Table) string {
	lines := []string{"-- then start the connector again; `cdc-outbox repair` finds in the table what Kafka does not have, and publishes it.",
		"-- By hand, publish again from the table what was committed since the last published event. Go back generously:",
		"-- created_at is the transaction's start; consumers tell a repeat by its id."}
	when := cfg.Columns.Timestamp
	if when == "" {
		when = "created_at"
	}
	for _, t := range tables {
		lines = append(lines, fmt.Sprintf("-- WITH gone AS (DELETE FROM %[1]s WHERE %[2]s >= '…' RETURNING *) INSERT INTO %[1]s OVERRIDING SYSTEM VALUE SELECT * FROM gone;", t.SQL(), identifier.Quote(when)))
	}
	return strings.Join(lines, "\n")
}

// renewSlot makes the slot anew; what is remembered was the old one's.
func renewSlot(cfg AdminConfig, st setupState) string {
	if cfg.Memory.Name == "" {
		return makeSlot(cfg, st)
	}
	return makeSlot(cfg, st) + "\n" + forget(cfg)
}

func slotGone(cfg AdminConfig, st setupState) preflight.Finding {
	return preflight.Finding{
		Level: preflight.Fail, Subject: slotSubject(cfg),
		Found: fmt.Sprintf("It is gone, while %s that it read is still there.", publicationSubject(cfg)),
		Why: "It was dropped, or the server was restored or failed over to a standby without it. A new slot starts at its creation: " +
			"rows committed between the last published event and then come through no slot.",
		Remedy: renewSlot(cfg, st) + "\n" + republish(cfg, cfg.Tables...) + "\n-- if nothing was ever published, creating the slot is all",
	}
}

// checkSlot judges a slot that exists.
func checkSlot(cfg AdminConfig, st setupState) []preflight.Finding {
	s, subject := st.Slot, slotSubject(cfg)
	fail := func(found, why, remedy string) []preflight.Finding {
		return []preflight.Finding{{Level: preflight.Fail, Subject: subject, Found: found, Why: why, Remedy: remedy}}
	}
	if foreign := foreignSlot(cfg, st); foreign != nil {
		return foreign
	}
	drop := fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", identifier.QuoteLiteral(cfg.Slot))
	switch {
	case s.Invalidated():
		return []preflight.Finding{slotInvalidated(cfg, st)}
	case s.Temporary:
		return fail("It is temporary.", "It vanishes with the session that made it.", "Set postgres.slot to another name.")
	case s.Synced && st.Server.InRecovery:
		return fail("It is a standby's copy of the primary's slot.", "It can be read only after the standby is promoted.", "Let postgres.dsn lead to the primary.")
	case s.TwoPhase:
		return fail("It was created with two_phase.", "Rows of prepared transactions would be sent before they are committed, and a rollback could not take them back.",
			"-- create it without: stop the writers, let the connector catch up, then\n"+drop+"\n"+slotDDL(cfg))
	}
	out := []preflight.Finding{okFinding(subject, fmt.Sprintf("pgoutput, confirmed up to %s.", s.ConfirmedFlush))}
	if s.WALStatus == WALUnreserved {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: subject, Found: "Its wal_status is unreserved: it keeps more WAL than max_slot_wal_keep_size allows.",
			Why:    "The next checkpoint may remove WAL it needs, and the slot is lost then.",
			Remedy: st.Server.Service.With(st.Server.Service.LimitWAL(-1)) + "\n-- until it has caught up",
		})
	}
	if cfg.Failover && !s.Failover && st.Server.Version >= 170000 {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: subject, Found: "It was created without failover.",
			Why: "Standbys keep no copy of it; after a promotion the slot is missing.", Remedy: "-- in a replication connection, psql \"… replication=database\":\nALTER_REPLICATION_SLOT " + identifier.Quote(cfg.Slot) + " ( FAILOVER true );",
		})
	}
	return out
}

// keepRows keeps VACUUM on the primary from taking away what decoding on the standby needs.
const keepRows = "-- before that: hot_standby_feedback = on on the standby, and a physical slot on the primary named in its primary_slot_name; `cdc-outbox check` looks"

func slotInvalidated(cfg AdminConfig, st setupState) preflight.Finding {
	s := st.Slot
	reason, advice := "its WAL was removed because it grew beyond max_slot_wal_keep_size", "-- raise max_slot_wal_keep_size so that it lasts longer than an outage"
	switch {
	case s.InvalidationReason == "rows_removed":
		reason, advice = "recovery on the standby has removed catalog rows it needs (rows_removed)", keepRows
	case s.InvalidationReason == "wal_level_insufficient":
		reason, advice = "wal_level was set below logical (wal_level_insufficient)", "-- set wal_level = logical again, of a standby on the primary, and restart that server"
	case s.InvalidationReason == "idle_timeout":
		reason, advice = "nobody read it for longer than idle_replication_slot_timeout (idle_timeout)", "-- raise idle_replication_slot_timeout"
	case s.Conflicting && s.InvalidationReason == "" && st.Server.InRecovery: // 16 does not say which, and on a primary it is always WAL
		reason, advice = "recovery on the standby has removed catalog rows it needs, or wal_level was set below logical on the primary", keepRows
	}
	return preflight.Finding{
		Level: preflight.Fail, Subject: slotSubject(cfg),
		Found: fmt.Sprintf("Postgres has invalidated it: %s. It was confirmed up to %s.", reason, s.ConfirmedFlush),
		Why:   "It can never be read again. Rows committed after that position come through no slot.",
		Remedy: strings.Join([]string{
			fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", identifier.QuoteLiteral(cfg.Slot)),
			renewSlot(cfg, st),
			republish(cfg, cfg.Tables...),
			advice,
		}, "\n"),
	}
}
