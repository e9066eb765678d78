// Package outboxtest shows tests which events a transaction has written, without a connector or a broker:
//
//	tx, err := pool.Begin(ctx)
//	...
//	defer tx.Rollback(ctx)
//	err = shop.Pay(ctx, tx, order) // the code that is tested
//	...
//	events, err := outboxtest.Events(ctx, tx, outbox.Options{})
//
// It reads the table in the transaction, so nothing has to be committed, tests may run side by side, and events of
// other transactions are left out. It does not see what Emit writes, because no table has that.
package outboxtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// Events returns the events that the transaction has written into the table of opts so far and has not rolled back, in
// the order of its statements. A payload is a json.RawMessage as Postgres prints it, a string from a text column, a
// []byte from a bytea column, or nil. It is as the table has it: an event with a version has its envelope. Rows that
// were not written by package outbox are events, too, if their headers are text.
func Events(ctx context.Context, tx pgx.Tx, opts outbox.Options) ([]outbox.Event, error) {
	rows, err := tx.Query(ctx, statement(opts))
	if err != nil {
		return nil, fmt.Errorf("outboxtest: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.Event, error) {
		return event(row.Scan, opts.Payload)
	})
	if err != nil {
		return nil, fmt.Errorf("outboxtest: %w", err)
	}
	return events, nil
}

// EventsSQL is Events for database/sql.
func EventsSQL(ctx context.Context, tx *sql.Tx, opts outbox.Options) (events []outbox.Event, err error) {
	rows, err := tx.QueryContext(ctx, statement(opts))
	if err != nil {
		return nil, fmt.Errorf("outboxtest: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		e, err := event(rows.Scan, opts.Payload)
		if err != nil {
			return nil, fmt.Errorf("outboxtest: %w", err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outboxtest: %w", err)
	}
	return events, nil
}

// statement selects the rows that this session sees although their transaction is in progress: its own. The rows of a
// savepoint have the id of a subtransaction, which is later than that of the transaction, so the distance to it, modulo
// 2^32, is small. Rows with an id that is far from it are old, and are not asked about.
func statement(opts outbox.Options) string {
	name := pgx.Identifier{"outbox"}
	if opts.Table != "" {
		name[0] = opts.Table
	}
	if opts.Schema != "" {
		name = append(pgx.Identifier{opts.Schema}, name...)
	}
	payload := "pg_catalog.convert_to(payload::text, 'UTF8')"
	if opts.Payload == outbox.Bytea {
		payload = "payload"
	}
	return `SELECT id::text, aggregate_type, aggregate_id, event_type, ` + payload + `, headers::text, created_at
FROM (SELECT pg_catalog.pg_current_xact_id_if_assigned()::text::bigint OFFSET 0) AS own (xid),
	LATERAL (SELECT *, cmin::text::bigint AS command, ctid AS place,
		(xmin::text::bigint - (own.xid & 4294967295) + 4294967296) % 4294967296 AS later
		FROM ` + name.Sanitize() + `) AS rows
WHERE CASE WHEN later < 16777216 THEN pg_catalog.pg_xact_status((own.xid + later)::text::xid8) = 'in progress' END
ORDER BY command, place`
}

// event reads a row.
func event(scan func(dest ...any) error, payload outbox.PayloadType) (e outbox.Event, err error) {
	var value []byte
	var headers *string
	var at time.Time
	if err := scan(&e.ID, &e.AggregateType, &e.AggregateID, &e.Type, &value, &headers, &at); err != nil {
		return e, err
	}
	e.Timestamp = at
	switch {
	case value == nil:
	case payload == outbox.Bytea:
		e.Payload = value
	case payload == outbox.Text:
		e.Payload = string(value)
	default:
		e.Payload = json.RawMessage(value)
	}
	if headers != nil {
		if err := json.Unmarshal([]byte(*headers), &e.Headers); err != nil {
			return e, fmt.Errorf("the headers of event %s: %w", e.ID, err)
		}
	}
	return e, nil
}
