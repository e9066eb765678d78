package standbys

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Outcome is what a failover to a server would do to the stream.
type Outcome string

const (
	Continues Outcome = "continues" // the stream goes on: what its slot has not confirmed is sent again
	Repeats   Outcome = "repeats"   // it goes on from an old position that nothing moves
	Loses     Outcome = "loses"     // there is no slot that can be read: events are missing until a repair
	Unfit     Outcome = "unfit"     // it is not a standby of this primary
	Unknown   Outcome = "unknown"   // it cannot be asked
)

// Meaning is what follows for the relay where it is not Continues.
func (o Outcome) Meaning() string {
	switch o {
	case Loses:
		return "After a failover to it the relay stops at a missing slot, and the events since the last confirmed " +
			"position are missing from Kafka until they are repaired."
	case Repeats:
		return "After a failover to it the relay goes on from that position, or refuses it: events are repeated, or " +
			"the stream stops."
	case Unfit:
		return "It is among the servers that may be promoted."
	}
	return "Whether a failover to it would lose events is not known."
}

// Forecast is what a failover to one server would do.
type Forecast struct {
	Server   string       `json:"server"` // host:port
	Outcome  Outcome      `json:"outcome"`
	Sentence string       `json:"sentence"`
	Next     fault.Remedy `json:"-"`

	SlotLag int64 `json:"slot_lag_bytes"` // from the position of its slot to the one confirmed here
	WALLag  int64 `json:"wal_lag_bytes"`  // WAL of the primary that it has not received
}

// primary is the server that has the slot.
type primary struct {
	facts
	slot    postgres.Slot
	version int
}

// successor is the answer of a server that may be promoted.
type successor struct {
	facts
	slot   postgres.Slot
	server postgres.Server
}

// facts are known of both.
type facts struct {
	System  string  `json:"system"`  // identifier in pg_control_system()
	Started string  `json:"started"` // when the server was started
	Syncs   bool    `json:"syncs"`   // sync_replication_slots, 17+
	WAL     string  `json:"wal"`     // flushed on a primary, received on a standby
	at      lsn.LSN // WAL
}

const noSlot = "The slot would be missing on it: "

// judge forecasts a failover to the successor, whose name is server. isPrimary: it is the primary under another name.
func (p *primary) judge(server string, s *successor) (f Forecast, isPrimary bool) {
	f = Forecast{Server: server}
	if p.at > s.at {
		f.WALLag = int64(p.at - s.at)
	}
	switch {
	case p.System != s.System:
		f.Outcome, f.Sentence = Unfit, "It has the data of another system, and is not a standby of this primary."
		f.Next = fault.Do("Correct postgres.standbys.")
	case !s.server.InRecovery && p.Started == s.Started:
		return f, true
	case !s.server.InRecovery:
		f.Outcome, f.Sentence = Unfit, "It is not in recovery: it was promoted, or is an old primary."
		f.Next = fault.Do("Rebuild it as a standby (pg_rewind, pg_basebackup), or stop it: a relay that reaches it " +
			"would read another history.")
	case !s.slot.Exists:
		f.Outcome = Loses
		f.Sentence, f.Next = p.whyNoCopy(server, s)
	default:
		p.judgeCopy(&f, s)
	}
	return f, false
}

// judgeCopy judges a standby's slot of the name.
func (p *primary) judgeCopy(f *Forecast, s *successor) {
	if p.slot.ConfirmedFlush > s.slot.ConfirmedFlush {
		f.SlotLag = int64(p.slot.ConfirmedFlush - s.slot.ConfirmedFlush)
	}
	name := identifier.QuoteLiteral(s.slot.Name)
	switch {
	case s.slot.Invalidated():
		f.Outcome = Loses
		f.Sentence = "Its copy of the slot is invalidated, and cannot be read."
		if why := s.slot.InvalidationReason; why != "" {
			f.Sentence = fmt.Sprintf("Its copy of the slot is invalidated (%s), and cannot be read.", why)
		}
		f.Next = on(f.Server, "Keep the primary from removing the rows that the copy needs, and drop the copy. The "+
			"server makes another one.", "ALTER SYSTEM SET hot_standby_feedback = on;", "SELECT pg_reload_conf();",
			fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", name))
	case s.slot.Synced && s.slot.Temporary:
		f.Outcome = Loses
		f.Sentence = noSlot + "its copy is not ready, because the standby does not have the WAL from which it would " +
			"be read."
		f.Next = fault.Do("The copy becomes ready when the slot here has moved on: let the connector run. Where "+
			"nothing is written, the command on the primary gives it something to pass. The log of the standby has "+
			"the positions.", logEmit)
	case s.slot.Synced:
		p.judgeSynced(f, s)
	case p.slot.Failover:
		f.Outcome = Repeats
		f.Sentence = fmt.Sprintf("It has a slot of the same name that the server does not synchronize, at %s; while "+
			"that exists, there is no copy of this slot.", s.slot.ConfirmedFlush)
		f.Next = on(f.Server, "Drop that slot. The server makes a copy then.",
			fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", name))
	case s.slot.ConfirmedFlush > p.slot.ConfirmedFlush:
		f.Outcome = Loses
		f.Sentence = fmt.Sprintf("Its slot begins at %s, after the position confirmed here (%s): what lies between "+
			"would be missing.", s.slot.ConfirmedFlush, p.slot.ConfirmedFlush)
		f.Next = on(f.Server, "Drop that slot, and let the tool that copies slots make it again.",
			fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", name))
	default:
		f.Outcome = Continues
		f.Sentence = fmt.Sprintf("It has a copy of the slot that is not the server's own, with a lag of %s; %s.",
			human.Bytes(f.SlotLag), f.lag())
	}
}

// judgeSynced judges a copy that the server made. It moves only while the server's settings allow that.
func (p *primary) judgeSynced(f *Forecast, s *successor) {
	if why, next := p.stuck(f.Server, s); why != "" {
		f.Outcome = Repeats
		f.Sentence = fmt.Sprintf("Its copy of the slot does not move any more, and has a lag of %s: %s",
			human.Bytes(f.SlotLag), why)
		f.Next = next
		return
	}
	f.Outcome = Continues
	f.Sentence = fmt.Sprintf("It has a copy of the slot, with a lag of %s; %s.", human.Bytes(f.SlotLag), f.lag())
}

// whyNoCopy is why the standby has no slot of the name.
func (p *primary) whyNoCopy(server string, s *successor) (string, fault.Remedy) {
	const heals = "With on_gap: heal, the relay publishes what is missing after a failover; otherwise " +
		"`cdc-outbox repair` does."
	if p.version < 170000 {
		return noSlot + "before PostgreSQL 17 the server copies none.", fault.Do(heals)
	}
	if !p.slot.Failover {
		return noSlot + "it was created without failover.", fault.Do("Set postgres.failover, and change the slot in a "+
			"replication connection to the primary, such as psql \"replication=database\", while nothing reads it. "+
			heals,
			fmt.Sprintf("ALTER_REPLICATION_SLOT %s ( FAILOVER true );", identifier.Quote(p.slot.Name)))
	}
	if why, next := p.stuck(server, s); why != "" {
		return noSlot + why, next
	}
	return noSlot + "the server has not copied it yet.", fault.Do("If that lasts for minutes, the log of the standby " +
		"has the reason. primary_conninfo there has to name a database (dbname=).")
}

// stuck is the setting of the standby that keeps its server from synchronizing slots; empty: none is known.
func (p *primary) stuck(server string, s *successor) (string, fault.Remedy) {
	set := func(what, setting string) fault.Remedy {
		return on(server, what, "ALTER SYSTEM SET "+setting+";", "SELECT pg_reload_conf();")
	}
	switch {
	case !s.Syncs:
		return "sync_replication_slots is off.", set("Switch it on.", "sync_replication_slots = on")
	case !s.server.Feedback:
		return "hot_standby_feedback is off.", set("Switch it on.", "hot_standby_feedback = on")
	case s.server.PrimarySlot == "":
		return "primary_slot_name is empty.", set("Name the physical slot of this standby on the primary. The word in "+
			"capitals is yours to fill in.", "primary_slot_name = 'STANDBY_SLOT'")
	}
	return "", fault.Remedy{}
}

// lag says how much of the primary's WAL a standby lacks.
func (f *Forecast) lag() string {
	if f.WALLag == 0 {
		return "it has received all WAL"
	}
	return human.Bytes(f.WALLag) + " of WAL have not arrived yet"
}

// logEmit moves the WAL of a server on which nothing is written.
const logEmit = "SELECT pg_log_standby_snapshot();"

// on is a remedy whose commands belong on another server than the connected one.
func on(server, what string, commands ...string) fault.Remedy {
	return fault.Do(fmt.Sprintf("%s Run this on %s as a superuser.", what, server), commands...)
}
