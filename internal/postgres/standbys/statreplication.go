package standbys

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// Look is the server's answer at one moment.
type Look struct {
	InRecovery bool     `json:"in_recovery"`
	MaySee     bool     `json:"may_see"`
	Role       string   `json:"role"`
	Inserted   string   `json:"inserted"`
	Flushed    string   `json:"flushed"`
	SyncNames  string   `json:"sync_names"`
	HeldSlots  string   `json:"held_slots"` // synchronized_standby_slots, 17+
	HolderPID  uint32   `json:"holder_pid"` // the session that holds the stream's slot
	Failover   bool     `json:"failover"`   // of the stream's slot
	Senders    []Sender `json:"senders"`
	Active     []string `json:"active"` // physical slots that are in use
	Slots      []string `json:"slots"`  // all physical slots

	inserted, flushedTo lsn.LSN
}

// Sender is a session that streams.
type Sender struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Flushed string `json:"flushed"` // empty: not reported yet, or hidden
	Slot    string `json:"slot"`
	Logical bool   `json:"logical"`

	at lsn.LSN
}

const lookSQL = `
SELECT jsonb_build_object(
  'in_recovery', pg_is_in_recovery(), 'may_see', pg_has_role('pg_read_all_stats', 'USAGE'), 'role', current_user,
  'flushed', CASE WHEN pg_is_in_recovery() THEN '' ELSE pg_current_wal_flush_lsn()::text END,
  'inserted', CASE WHEN pg_is_in_recovery() THEN '' ELSE pg_current_wal_insert_lsn()::text END,
  'sync_names', current_setting('synchronous_standby_names'),
  'held_slots', coalesce(current_setting('synchronized_standby_slots', true), ''),
  'holder_pid', coalesce(own.active_pid, 0), 'failover', coalesce((to_jsonb(own)->>'failover')::bool, false),
  'senders', (SELECT jsonb_agg(jsonb_build_object('name', r.application_name, 'state', coalesce(r.state, ''),
      'flushed', coalesce(r.flush_lsn::text, ''), 'slot', coalesce(s.slot_name, ''),
      'logical', coalesce(s.slot_type = 'logical', false)))
    FROM pg_catalog.pg_stat_replication r LEFT JOIN pg_catalog.pg_replication_slots s ON s.active_pid = r.pid),
  'active', (SELECT jsonb_agg(slot_name) FROM pg_catalog.pg_replication_slots
    WHERE slot_type = 'physical' AND active),
  'slots', (SELECT jsonb_agg(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_type = 'physical'))::text
  FROM (SELECT 1) one LEFT JOIN pg_catalog.pg_replication_slots own ON own.slot_name = $1::text`

// Ask looks at the server that has the slot.
func Ask(ctx context.Context, q postgres.Querier, slot string) (*Look, error) {
	var row []byte
	if err := q.QueryRow(ctx, lookSQL, slot).Scan(&row); err != nil {
		return nil, fmt.Errorf("look at the standbys: %w", err)
	}
	return decode(row)
}

func decode(row []byte) (*Look, error) {
	var l Look
	err := json.Unmarshal(row, &l)
	if err == nil && !l.InRecovery {
		if l.inserted, err = lsn.Parse(l.Inserted); err == nil {
			l.flushedTo, err = lsn.Parse(l.Flushed)
		}
	}
	for i := range l.Senders {
		if s := &l.Senders[i]; err == nil && s.Flushed != "" {
			s.at, err = lsn.Parse(s.Flushed)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look at the standbys: %w", err)
	}
	return &l, nil
}

// physical reports whether it is a standby that has said how far it is. As for the server (syncrep.c,
// SyncRepGetCandidateStandbys), one that is still catching up does not count: it may turn out to follow another
// history.
func (s *Sender) physical() bool {
	return !s.Logical && s.at > 0 && (s.State == "streaming" || s.State == "stopping")
}

// state is the state in which a standby of this name is connected, empty where none is.
func (l *Look) state(name string) string {
	for i := range l.Senders {
		if s := &l.Senders[i]; !s.Logical && strings.EqualFold(s.Name, name) {
			return s.State
		}
	}
	return ""
}

// holds reports whether the server holds the stream back for the standby of this slot.
func (l *Look) holds(slot string) bool {
	return slot != "" && l.Failover && slices.Contains(l.Held(), slot)
}

// Held lists the slots of synchronized_standby_slots.
func (l *Look) Held() []string { return session.ParseSynchronous(l.HeldSlots).Names }

func (l *Look) flushed(s *Sender) lsn.LSN {
	if l.holds(s.Slot) {
		return unbounded
	}
	return s.at
}

// flushedBy returns how far the standby of this name is. Where several have the name, all of them count.
func (l *Look) flushedBy(name string) (at lsn.LSN, connected bool) {
	at = unbounded
	for i := range l.Senders {
		if s := &l.Senders[i]; s.physical() && strings.EqualFold(s.Name, name) {
			at, connected = min(at, l.flushed(s)), true
		}
	}
	return at, connected
}

// unused lists the slots for which the server holds the stream back and that no standby uses.
func (l *Look) unused() []string {
	if !l.Failover {
		return nil
	}
	return slices.DeleteFunc(l.Held(), func(slot string) bool { return slices.Contains(l.Active, slot) })
}

// Decodes reports whether the session of this name decodes, as the relay's does: it is not a standby.
func (l *Look) Decodes(name string) bool {
	return slices.ContainsFunc(l.Senders, func(s Sender) bool { return s.Logical && strings.EqualFold(s.Name, name) })
}
