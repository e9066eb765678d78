package decision

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// Table keeps the decisions about one relay.
type Table struct {
	Name  identifier.Table // nothing is kept if it has no name
	Relay string           // the slot, or PollingRelay
}

// PollingRelay is the relay of source: polling, which has no slot. A slot cannot have this name.
const PollingRelay = "source: polling"

const columns = `id, kind, coalesce(position, ''), coalesce(event_id, ''), coalesce(action, ''), reason, decided_at,
	decided_by, decided_from, taken_at, coalesce(taken_by, ''), coalesce(taken_lsn, ''), closed_at,
	(extract(epoch FROM now() - coalesce(taken_at, decided_at)) * 1000)::bigint`

// Exists reports whether the table is there.
func (t Table) Exists(ctx context.Context, conn *pgx.Conn) (yes bool, err error) {
	err = conn.QueryRow(ctx, `SELECT to_regclass($1::text) IS NOT NULL`, t.Name.SQL()).Scan(&yes)
	return yes, err
}

// open returns the open rows, and the decisions about the positions, by id.
func (t Table) open(ctx context.Context, conn *pgx.Conn, positions []string) ([]Decision, error) {
	return t.query(ctx, conn, `(closed_at IS NULL OR kind = 'pass' AND position = ANY ($2::text[])) ORDER BY id`,
		positions)
}

// Latest returns the open rows and the last twenty of the others, the latest first.
func (t Table) Latest(ctx context.Context, conn *pgx.Conn) ([]Decision, error) {
	return t.query(ctx, conn, `(closed_at IS NULL OR id > coalesce((SELECT max(id) FROM `+t.Name.SQL()+`
		WHERE relay = $1::text), 0) - $2::bigint) ORDER BY closed_at IS NOT NULL, id DESC`, 20)
}

// skipped returns the ids of the events that were skipped.
func (t Table) skipped(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, fmt.Sprintf(`SELECT DISTINCT event_id FROM %s WHERE relay = $1::text AND kind = 'pass'
		AND action = 'skip' AND taken_at IS NOT NULL AND event_id <> ''`, t.Name.SQL()), t.Relay)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (t Table) query(ctx context.Context, conn *pgx.Conn, where string, arg any) ([]Decision, error) {
	rows, err := conn.Query(ctx, fmt.Sprintf(`SELECT %s FROM %s WHERE relay = $1::text AND %s`, columns, t.Name.SQL(),
		where), t.Relay, arg)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Decision, err error) {
		var idle int64
		err = row.Scan(&d.ID, &d.Kind, &d.Position, &d.EventID, &d.Action, &d.Reason, &d.At, &d.By, &d.From, &d.TakenAt,
			&d.TakenBy, &d.TakenLSN, &d.ClosedAt, &idle)
		d.idle = time.Duration(idle) * time.Millisecond
		return d, err
	})
}

// list adds a row at which the relay is halted.
func (t Table) list(ctx context.Context, conn *pgx.Conn, h *relay.HaltedRow, from string) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (relay, kind, position, event_id, reason, decided_from)
		VALUES ($1::text, 'halted', $2::text, $3::text, $4::text, $5::text)`, t.Name.SQL()), t.Relay, h.Position,
		h.EventID, relay.Storable(h.Message), from)
	return err
}

// markTaken marks a decision as taken up. It returns false if the decision no longer exists.
func (t Table) markTaken(ctx context.Context, conn *pgx.Conn, id int64, by, at string) (bool, error) {
	tag, err := conn.Exec(ctx, fmt.Sprintf(`UPDATE %s SET taken_at = now(), taken_by = $2::text, taken_lsn = $3::text
		WHERE id = $1::bigint AND taken_at IS NULL`, t.Name.SQL()), id, by, at)
	return err == nil && tag.RowsAffected() > 0, err
}

// seen notes that the relay is still halted at rows.
func (t Table) seen(ctx context.Context, conn *pgx.Conn, ids []int64) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`UPDATE %s SET taken_at = now() WHERE id = ANY ($1::bigint[])`, t.Name.SQL()),
		ids)
	return err
}

// prune deletes rows at which the relay was halted long ago. Operators' decisions stay: they are the record. Without
// the right to delete nothing is deleted.
func (t Table) prune(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`DELETE FROM %s WHERE relay = $1::text AND kind = 'halted'
		AND closed_at < now() - $2::interval`, t.Name.SQL()), t.Relay, haltedKept)
	if sqlstate.Of(err) == sqlstate.NotPermitted {
		return nil
	}
	return err
}

// haltedKept is for how long rows stay listed at which the relay was halted once.
const haltedKept = 30 * 24 * time.Hour

func (t Table) close(ctx context.Context, conn *pgx.Conn, ids []int64) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`UPDATE %s SET closed_at = now()
		WHERE id = ANY ($1::bigint[]) AND closed_at IS NULL`, t.Name.SQL()), ids)
	return err
}

// insert adds an operator's decision and returns it.
func (t Table) insert(ctx context.Context, conn *pgx.Conn, d Decision) (Decision, error) {
	null := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	err := conn.QueryRow(ctx, fmt.Sprintf(`INSERT INTO %s
		(relay, kind, position, event_id, action, reason, decided_from)
		VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text)
		RETURNING id, decided_at, decided_by`, t.Name.SQL()), t.Relay, string(d.Kind), null(d.Position),
		d.EventID, null(string(d.Action)), d.Reason, d.From).Scan(&d.ID, &d.At, &d.By)
	return d, err
}
