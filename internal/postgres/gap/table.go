package gap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// Table keeps the gaps of one slot.
type Table struct {
	Name    identifier.Table // no gap is kept if it has no name
	Objects postgres.Objects
	// Publisher is asked for its Kafka during a check. Default: one that publishes nothing.
	Publisher Publisher
}

// Of is the table for a slot and its publication: beside the checkpoint, and none without a checkpoint.
func Of(o postgres.Objects) Table { return Table{Name: o.Gaps(), Objects: o} }

// maxOpen bounds what is read of a table that something else has filled.
const maxOpen = 100

const columns = `jsonb_build_object('id', id, 'cause', cause, 'what', what, 'from_lsn', coalesce(from_lsn::text, ''),
	'from_at', from_at, 'to_lsn', coalesce(to_lsn::text, ''), 'to_at', to_at, 'system_id', system_id,
	'found_at', found_at, 'found_by', found_by, 'settled_at', settled_at, 'settled_by', coalesce(settled_by, ''),
	'settled_how', coalesce(settled_how, ''), 'missing', missing, 'published', published,
	'reason', coalesce(reason, ''))`

// openSQL is a scalar subquery that lists the open gaps of the slot that the parameter names, the oldest first.
func (t Table) openSQL(slot string) string {
	return fmt.Sprintf(`(SELECT coalesce(jsonb_agg(%s ORDER BY id), '[]') FROM (SELECT * FROM %s
		WHERE slot = %s AND cause <> 'none' AND settled_at IS NULL ORDER BY id LIMIT %d) AS g)`,
		columns, t.Name.SQL(), slot, maxOpen)
}

// Open lists the open gaps, the oldest first. A table that does not exist has none.
func (t Table) Open(ctx context.Context, q postgres.Querier) ([]Gap, error) {
	return t.list(ctx, q, t.openSQL("$1::text"))
}

// OfSlots lists the open gaps of every slot, by slot, the oldest first. A table that does not exist has none.
func (t Table) OfSlots(ctx context.Context, q postgres.Querier) (map[string][]Gap, error) {
	if t.Name.Name == "" {
		return nil, nil
	}
	if is, err := postgres.IsTable(ctx, q, t.Name); err != nil || !is {
		return nil, err
	}
	var text []byte
	err := q.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(jsonb_object_agg(slot, gaps), '{}')::text
		FROM (SELECT slot, jsonb_agg(%s ORDER BY id) AS gaps FROM (SELECT * FROM %s
			WHERE cause <> 'none' AND settled_at IS NULL ORDER BY id LIMIT %d) AS g GROUP BY slot) AS s`,
		columns, t.Name.SQL(), maxOpen)).Scan(&text)
	if err != nil {
		return nil, err
	}
	var all map[string][]Gap
	return all, json.Unmarshal(text, &all)
}

func (t Table) list(ctx context.Context, q postgres.Querier, subquery string) (all []Gap, err error) {
	if t.Name.Name == "" {
		return nil, nil
	}
	var text []byte
	err = q.QueryRow(ctx, "SELECT "+subquery+"::text", t.Objects.Slot).Scan(&text)
	switch sqlstate.Of(err) {
	case sqlstate.UndefinedTable, sqlstate.UndefinedSchema:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, &all)
}

// Begin opens a gap that ends at a slot's new position, and begins the slot's account again: what the publication hid
// before lies within the gap, or in gaps that are open already. Where the gap's from is not known, it is the account's.
// The acceptance of a slot of which nothing was remembered opens none unless the account shows that it was moved.
func (t Table) Begin(ctx context.Context, conn *pgx.Conn, g Gap) error {
	s, err := t.see(ctx, conn)
	if err != nil {
		return err
	}
	remembered := g.FromLSN != ""
	if w := s.Whole; w != nil && w.SystemID == g.SystemID {
		g.FromLSN = cmp.Or(g.FromLSN, w.FromLSN)
		if position(g.FromLSN) >= position(w.FromLSN) {
			g.FromAt = &w.FromAt
		}
	}
	if g.Cause == SlotAccepted && !remembered && (g.FromLSN == "" || position(g.ToLSN) <= position(g.FromLSN)) {
		return nil
	}
	// A slot that is replaced again before anything was confirmed from it, or before it was accepted, makes the same
	// gap longer.
	_, err = conn.Exec(ctx, fmt.Sprintf(`WITH past AS (DELETE FROM %[1]s WHERE slot = $1::text AND cause = 'none'),
		longer AS (UPDATE %[1]s SET to_lsn = $7::text::pg_lsn, to_at = now() WHERE slot = $1::text AND cause = $2::text
			AND system_id = $4::text AND settled_at IS NULL
			AND $5::text::pg_lsn IN (from_lsn, to_lsn) AND to_lsn <= $7::text::pg_lsn RETURNING id)
		INSERT INTO %[1]s (slot, cause, what, system_id, from_lsn, from_at, to_lsn, to_at)
		SELECT $1::text, $2::text, $3::text, $4::text, $5::text::pg_lsn, $6::timestamptz, $7::text::pg_lsn, now()
		WHERE NOT EXISTS (SELECT FROM longer)`,
		t.Name.SQL()), t.Objects.Slot, g.Cause, g.What, g.SystemID, null(g.FromLSN), g.FromAt, g.ToLSN)
	if err != nil {
		return err
	}
	if s.Whole != nil { // another slot publishes to the same Kafka
		t.Publisher = continues{Kafka{ID: s.Whole.Evidence.Kafka, Ends: s.Whole.Evidence.Ends}}
	}
	return t.BeginAccount(ctx, conn, g.Cause == SlotRecreated)
}

// Settle settles gaps by a repair that has looked at all of their rows.
func (t Table) Settle(ctx context.Context, conn *pgx.Conn, ids []int64, missing, published int64) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`UPDATE %s SET settled_at = now(), settled_by = session_user,
		settled_how = 'repaired', missing = $3::bigint, published = $4::bigint
		WHERE slot = $1::text AND id = ANY ($2::bigint[]) AND settled_at IS NULL AND to_lsn IS NOT NULL`, t.Name.SQL()),
		t.Objects.Slot, ids, missing, published)
	return err
}

// Dismiss settles a gap by decision. A gap that lasts would only be found again.
func (t Table) Dismiss(ctx context.Context, conn *pgx.Conn, id int64, reason string) error {
	var settled, lasts bool
	err := conn.QueryRow(ctx, fmt.Sprintf(`SELECT settled_at IS NOT NULL, to_lsn IS NULL FROM %s
		WHERE slot = $1::text AND id = $2::bigint AND cause <> 'none'`, t.Name.SQL()), t.Objects.Slot, id).
		Scan(&settled, &lasts)
	f := &fault.Error{Kind: fault.Operator, Object: fmt.Sprintf("gap %d", id)}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		f.Err = errors.New("the slot has none of this number")
		return f.With(fault.Do("See which gaps there are.", "cdc-outbox status"))
	case err != nil:
		return err
	case settled:
		f.Err = errors.New("it is settled already")
		return f
	case lasts:
		f.Err = errors.New("rows are still being hidden")
		return f.With(fault.Do("Put that right first.", "cdc-outbox check"))
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`UPDATE %s SET settled_at = now(), settled_by = session_user,
		settled_how = 'dismissed', reason = $2::text WHERE id = $1::bigint AND settled_at IS NULL`, t.Name.SQL()),
		id, reason)
	return err
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
