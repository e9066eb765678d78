package standbys

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	System   string   `json:"system"`   // identifier in pg_control_system()
	Started  string   `json:"started"`  // when the server was started
	Syncs    bool     `json:"syncs"`    // sync_replication_slots, 17+
	Physical []string `json:"physical"` // physical slots in use
	Idle     *float64 `json:"idle"`     // seconds since the slot was used last, 17+; nil: it is in use
	WAL      string   `json:"wal"`      // flushed on a primary, received on a standby
	at       lsn.LSN  // WAL
}

const (
	noSlot = "The slot would be missing on it: "
	// stale is the age of a copy that nothing synchronizes any more: the server does it every 30 s at least.
	stale = 2 * time.Minute
	// farBack is how much WAL makes a copy of another tool too old to be called one.
	farBack = 256 << 20
)

// judge forecasts a failover to the successor, whose name is server. isPrimary: it is the primary under another name.
func (p *primary) judge(server string, s *successor) (f Forecast, isPrimary bool) {
	f = Forecast{Server: server}
	if p.at > s.at {
		f.WALLag = int64(p.at - s.at)
	}
	if s.slot.Exists && p.slot.ConfirmedFlush > s.slot.ConfirmedFlush {
		f.SlotLag = int64(p.slot.ConfirmedFlush - s.slot.ConfirmedFlush)
	}
	switch {
	case p.System != s.System:
		f.Outcome, f.Sentence = Unfit, "It has the data of another system, and is not a standby of this primary."
		f.Next = fault.Do("Correct postgres.standbys, or the hosts of postgres.dsn.")
	case !s.server.InRecovery && p.Started == s.Started:
		return f, true
	case !s.server.InRecovery:
		f.Outcome, f.Sentence = Unfit, "It is not in recovery: it was promoted, or is an old primary."
		f.Next = fault.Do("Rebuild it as a standby (pg_rewind, pg_basebackup), or stop it: a relay that reaches it " +
			"would read another history.")
	case !s.slot.Exists:
		f.Outcome = Loses
		f.Sentence, f.Next = p.whyNoCopy(server, s)
	case s.slot.Synced:
		p.judgeSynced(&f, s)
	default:
		p.judgeOther(&f, s)
	}
	return f, false
}

// judgeSynced judges a copy that the server made. Settings explain a copy that does not move; they do not prove it,
// since pg_sync_replication_slots() may move it as well.
func (p *primary) judgeSynced(f *Forecast, s *successor) {
	switch {
	case s.slot.Invalidated():
		f.Outcome = Loses
		f.Sentence = fmt.Sprintf("Its copy of the slot is invalidated (%s), and cannot be read.",
			cmp.Or(s.slot.InvalidationReason, s.slot.WALStatus))
		f.Next = fault.Do("The server makes another copy. If it does not, or the copy is invalidated again, see " +
			"hot_standby_feedback, max_slot_wal_keep_size and wal_level on the standby.")
	case s.slot.Temporary:
		f.Outcome = Loses
		f.Sentence = noSlot + "its copy is not ready, because the standby does not have yet what is needed to read it."
		f.Next = fault.Do("The copy becomes ready when the slot on the primary has moved on: let the connector run. "+
			"Where nothing is written, the command gives it something to pass: run it on the primary, as a superuser. "+
			"The log of the standby has the positions.", "SELECT pg_log_standby_snapshot();")
	case s.Idle != nil && *s.Idle >= stale.Seconds():
		why, next := p.stuck(f.Server, s)
		f.Outcome = Repeats
		f.Sentence = fmt.Sprintf("Its copy of the slot was not synchronized for %s, and has a lag of %s: %s",
			human.Duration(time.Duration(*s.Idle*float64(time.Second))), human.Bytes(f.SlotLag), why)
		f.Next = next
	default:
		f.Outcome = Continues
		f.Sentence = fmt.Sprintf("It has a copy of the slot, with a lag of %s, and of %s of WAL.",
			human.Bytes(f.SlotLag), human.Bytes(f.WALLag))
	}
}

// judgeOther judges a slot of the name that the server does not synchronize: a tool's copy, or the slot that a demoted
// primary has kept.
func (p *primary) judgeOther(f *Forecast, s *successor) {
	drop := fault.Do(fmt.Sprintf("Drop that slot; a copy can be made then. Run this on %s.", f.Server),
		fmt.Sprintf("SELECT pg_drop_replication_slot(%s);", identifier.QuoteLiteral(s.slot.Name)))
	f.Outcome, f.Next = Loses, drop
	switch {
	case !s.slot.Logical || s.slot.Temporary || s.slot.Plugin != p.slot.Plugin || s.slot.Database != p.slot.Database:
		f.Sentence = "It has a slot of the same name that is not a copy: another kind, plugin or database."
	case s.slot.Invalidated():
		f.Sentence = "It has a slot of the same name that is invalidated."
	case s.slot.ConfirmedFlush > p.slot.ConfirmedFlush:
		f.Sentence = fmt.Sprintf("Its slot begins at %s, after the position confirmed here (%s): what lies between "+
			"would be missing.", s.slot.ConfirmedFlush, p.slot.ConfirmedFlush)
	case p.slot.Failover:
		f.Outcome = Repeats
		f.Sentence = fmt.Sprintf("It has a slot of the same name that the server does not synchronize, at %s; while "+
			"that exists, there is no copy of this slot.", s.slot.ConfirmedFlush)
	case f.SlotLag > farBack:
		f.Outcome = Repeats
		f.Sentence = fmt.Sprintf("Its slot of that name has a lag of %s: no tool keeps it at the position of this one.",
			human.Bytes(f.SlotLag))
	default:
		f.Outcome, f.Next = Continues, fault.Remedy{}
		f.Sentence = fmt.Sprintf("It has a copy of the slot that is not the server's own, with a lag of %s, and of %s "+
			"of WAL.", human.Bytes(f.SlotLag), human.Bytes(f.WALLag))
	}
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
	why, next := p.stuck(server, s)
	return noSlot + why, next
}

// stuck is what keeps the server of the standby from synchronizing the slot, as far as its settings say that.
func (p *primary) stuck(server string, s *successor) (string, fault.Remedy) {
	switchOn := func(setting string) (string, fault.Remedy) {
		r := s.server.Service.With(s.server.Service.Set(setting, "on", false))
		r.Next = fmt.Sprintf("On %s: %s", server, r.Next)
		return setting + " is off there.", r
	}
	switch {
	case !s.Syncs:
		return switchOn("sync_replication_slots")
	case !s.server.Feedback:
		return switchOn("hot_standby_feedback")
	case !slices.Contains(p.Physical, s.server.PrimarySlot):
		return fmt.Sprintf("it does not stream from this primary through a slot (primary_slot_name is %q).",
				s.server.PrimarySlot), fault.Do("Let it follow this primary, through a physical slot of its own that " +
				"primary_slot_name names there. A standby of another standby cannot synchronize slots.")
	}
	return "its settings do not say why.", fault.Do("See the log of the standby: primary_conninfo may name no " +
		"database (dbname=), its login may be refused, or another slot may stop the synchronization of all.")
}
