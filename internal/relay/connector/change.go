package connector

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// OnChange is the reaction to a change of the outbox that is not an event: an UPDATE or a TRUNCATE.
type OnChange string

const (
	WarnOfChange   OnChange = "warn"   // count it, and say so in the log now and then
	IgnoreChange   OnChange = "ignore" // count it
	HaltAtTheFirst OnChange = "halt"   // stop in front of it, stay alive and not ready until an operator decides
)

// warnAgain is how long the log keeps quiet about further changes of a kind.
const warnAgain = 10 * time.Minute

// change is a kind of change that the publication sends and that is not an event.
type change struct {
	name   string // as in SQL
	reason string // as in status and metrics
	halts  bool
	next   string
}

// A DELETE never halts: it is how an outbox is emptied, and it takes nothing back. The event of a row that was inserted
// and deleted in one transaction is published like any other.
var (
	updated = change{
		"UPDATE", "update", true,
		"An event is what was inserted: insert a new row for what changed. To keep such changes out of the stream: " +
			"ALTER PUBLICATION … SET (publish = 'insert').",
	}
	deleted = change{
		"DELETE", "delete", false,
		"Nothing has to be done. To spare the server sending them: ALTER PUBLICATION … SET (publish = 'insert').",
	}
	truncated = change{
		"TRUNCATE", "truncate", true,
		"Events that were in the table are published all the same, once. To keep such changes out of the stream: " +
			"ALTER PUBLICATION … SET (publish = 'insert').",
	}
)

// warnings remember the last warning about one kind of change.
type warnings struct {
	at   time.Time
	more uint64 // since
}

// changed takes a change of the outbox other than an INSERT. It has no index in its transaction: whether the
// publication sends it must not move the positions of the rows after it.
func (r *reader) changed(m *pgoutput.Message) error {
	kind, seen := &updated, &r.changes[0]
	switch m.Kind {
	case pgoutput.KindDelete:
		kind, seen = &deleted, &r.changes[1]
	case pgoutput.KindTruncate:
		kind, seen = &truncated, &r.changes[2]
	}
	rel, err := r.changedOutbox(m)
	if err != nil {
		return err
	}
	if rel == nil {
		r.c.counts.foreign.Add(1)
		return nil
	}
	r.c.counts.add(m)
	r.c.cfg.Metrics.Changed(kind.reason)
	if r.c.cfg.OnChange == IgnoreChange {
		return nil
	}
	pos := r.tracker.Snapshot().Next
	if r.c.cfg.OnChange == HaltAtTheFirst && kind.halts && !r.covered.holds(pos, r.timeline) {
		return r.haltAtChange(kind, rel, m, pos)
	}
	seen.more++
	if now := time.Now(); now.Sub(seen.at) >= warnAgain {
		log := r.c.log.Warn
		if !kind.halts {
			log = r.c.log.Info
		}
		log("outbox was changed by something other than INSERT; that is not an event and is not published",
			append(r.changeFields(kind, rel, m, pos), zap.Uint64(logkey.Rows, seen.more),
				zap.String(logkey.Next, kind.next))...)
		*seen = warnings{at: now}
	}
	return nil
}

// changedOutbox is the outbox that the change is about, nil if it is about other tables.
func (r *reader) changedOutbox(m *pgoutput.Message) (*pgoutput.Relation, error) {
	one := [1]*pgoutput.Relation{m.Relation}
	tables := one[:]
	if m.Kind == pgoutput.KindTruncate {
		tables = m.Truncated
	}
	for _, rel := range tables {
		foreign, err := r.meet(rel)
		if err != nil {
			return nil, err
		}
		if !foreign {
			return rel, nil
		}
	}
	return nil, nil
}

// haltAtChange halts in front of a change. A stream that breaks brings the reader back to it.
func (r *reader) haltAtChange(kind *change, rel *pgoutput.Relation, m *pgoutput.Message, pos offsets.Position) error {
	if r.c.haltAgain() {
		return errHalted
	}
	message := fmt.Sprintf("%s of %s, and postgres.on_change is halt", kind.name,
		identifier.Table{Schema: rel.Namespace, Name: rel.Name})
	next := kind.next + " To go on: restart with --postgres-on-change warn."
	id := r.changedID(rel, m)
	r.c.cfg.Metrics.Failed("", kind.reason)
	r.c.log.Error("halted at a change of the outbox that is not an event; nothing after it is published",
		append(r.changeFields(kind, rel, m, pos), zap.String(logkey.Next, next))...)
	r.c.setHalted(&relay.HaltedRow{
		Position: pos.String(), LSN: pos.Commit.String(), EventID: id, Reason: kind.reason, Message: message,
		Next: next, Since: time.Now(),
	})
	r.c.producer.Commit()
	return errHalted
}

// changedID is the id of the row that was updated, if the server sent it.
func (r *reader) changedID(rel *pgoutput.Relation, m *pgoutput.Message) string {
	i := rel.Column(r.c.cfg.DeadLetters.Columns.ID)
	if m.Kind != pgoutput.KindUpdate || i < 0 || i >= len(m.Tuple) || m.Tuple[i].Kind != pgoutput.Text {
		return ""
	}
	return deadletter.EventID([]router.Header{{Key: "id", Value: m.Tuple[i].Data}})
}

func (r *reader) changeFields(kind *change, rel *pgoutput.Relation, m *pgoutput.Message,
	pos offsets.Position,
) []zap.Field {
	return []zap.Field{
		zap.String(logkey.Reason, kind.reason), zap.Stringer(logkey.Table,
			identifier.Table{Schema: rel.Namespace, Name: rel.Name}),
		zap.String(logkey.Event, r.changedID(rel, m)), zap.String(logkey.LSN, pos.Commit.String()),
		zap.Stringer(logkey.Position, pos),
	}
}
