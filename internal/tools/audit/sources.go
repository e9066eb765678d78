package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// auditor holds the connections to the outbox.
type auditor struct {
	o      *Options
	conn   *pgx.Conn           // for the stream
	tables []*outboxtable.Rows // for lookups

	now, since, until time.Time   // by the outbox's clock
	reach             []time.Time // of each table, from when on its rows are known; zero if it has none
	archives          Archives
	confirmed         bool
	held              *HeldBack // nil: nothing holds the window back
}

func open(ctx context.Context, o *Options) (a *auditor, err error) {
	a = &auditor{o: o}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.conn, err = postgres.Open(ctx, o.DSN, postgres.ConnectOptions{Rows: true}); err != nil {
		return a, err
	}
	if err = a.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&a.now); err != nil {
		return a, postgres.QueryFault("server", err)
	}
	a.until = a.now.Add(-o.Grace)
	if err = a.holdBack(ctx); err != nil {
		return a, err
	}
	a.since = a.until.Add(-o.Since)
	if err = a.openTables(ctx); err != nil {
		return a, err
	}
	if a.confirmed, err = a.awaitConfirmed(ctx); err == nil {
		err = a.loadArchives(ctx)
	}
	return a, err
}

func (a *auditor) close() {
	if a.conn != nil {
		postgres.CloseConn(a.conn)
	}
	for _, t := range a.tables {
		t.Close()
	}
}

// awaitConfirmed reports whether the slot has confirmed everything that was written before the audit. The slot of a
// connector that lags, or does not run, has not. The message lets a slot of an idle database move. A slot that was
// re-created has confirmed WAL that nothing published; then Unpublished events count as Unhandled, and are found all
// the same.
func (a *auditor) awaitConfirmed(ctx context.Context) (bool, error) {
	if a.o.Published != "" {
		return false, nil // each row says it
	}
	var end string
	err := a.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&end)
	for until := time.Now().Add(a.o.Wait); err == nil; {
		var done bool
		err = a.conn.QueryRow(ctx, `SELECT COALESCE((SELECT confirmed_flush_lsn >= $2::text::pg_lsn
			FROM pg_replication_slots WHERE slot_name = $1), false)`, a.o.Admin.Slot, end).Scan(&done)
		if err != nil || done || time.Now().After(until) {
			return done, asFault("server", err)
		}
		_, err = a.conn.Exec(ctx,
			"SELECT pg_catalog.pg_logical_emit_message(true, 'cdc-outbox.audit', repeat(' ', 1024))")
		if err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false, asFault("server", err)
}

// asFault is QueryFault, and nil for nil.
func asFault(object string, err error) error {
	if err == nil {
		return nil
	}
	return postgres.QueryFault(object, err)
}

// events streams the window's rows by id, and with them all rows of archives that were read.
func (a *auditor) events(ctx context.Context, types []string) iter.Seq2[event, error] {
	args := []any{a.since, a.until}
	if len(types) > 0 {
		args = append(args, types)
	}
	var parts []string
	for i := range a.o.Admin.Tables {
		sql := a.liveSQL(i, len(types) > 0)
		if len(a.o.Archives) > 0 {
			sql = withArchived(sql, i, len(types) > 0)
		}
		parts = append(parts, "("+sql+")")
	}
	sql := strings.Join(parts, " UNION ALL ") + " ORDER BY id"
	return stream(ctx, a.conn, "outbox", sql, args, func(rows pgx.Rows, e *event) error {
		return rows.Scan(&e.id, &e.at, &e.published, &e.beside)
	})
}

// liveSQL selects the rows of the window that a table has.
func (a *auditor) liveSQL(table int, typed bool) string {
	cols := a.o.Admin.Columns
	published := fmt.Sprint(a.confirmed)
	if a.o.Published != "" {
		published = identifier.Quote(a.o.Published) + " IS NOT NULL"
	}
	of := ""
	if typed {
		of = " AND " + identifier.Quote(cols.AggregateType) + "::text = ANY ($3::text[])"
	}
	return fmt.Sprintf(`SELECT %s::text COLLATE "C" AS id, %s::timestamptz AS at, %s AS published, false AS beside`+
		" FROM %s WHERE %[2]s >= $1::timestamptz AND %[2]s < $2::timestamptz%[5]s",
		identifier.Quote(cols.ID), identifier.Quote(cols.Timestamp), published, a.o.Admin.Tables[table].SQL(), of)
}

// withArchived adds the archived rows of a table to the rows that it still has. A row is known by its id and its time;
// it counts as often as the source that has it most often has it, since sources repeat each other.
func withArchived(live string, table int, typed bool) string {
	chosen := "at >= $1::timestamptz AND at < $2::timestamptz"
	if typed {
		chosen += " AND type = ANY ($3::text[])"
	}
	return fmt.Sprintf(`SELECT id, CASE WHEN beside THEN $1::timestamptz ELSE at END AS at,
			bool_or(published) AS published, beside
		FROM (SELECT *, row_number() OVER (PARTITION BY id, at, source) AS nth
			FROM (SELECT *, 0 AS source FROM (%s) AS live
				UNION ALL SELECT id, at, true, NOT COALESCE(%s, false), source
					FROM (SELECT id, at::timestamptz, type, source FROM %s WHERE place = %d AND id IS NOT NULL
						) AS archived
				) AS sources
			) AS numbered GROUP BY id, at, nth, beside`, live, chosen, archivedTable, table)
}

// ledgerConn is a connection to a ledger.
type ledgerConn struct {
	conn, finder *pgx.Conn
	table        string
}

func (a *auditor) openLedger(ctx context.Context, l Ledger) (b *ledgerConn, err error) {
	dsn := l.DSN
	if dsn == "" {
		dsn = a.o.DSN
	}
	b = &ledgerConn{table: l.Table}
	for _, conn := range []**pgx.Conn{&b.conn, &b.finder} {
		if *conn, err = postgres.Open(ctx, dsn, postgres.ConnectOptions{Rows: true}); err != nil {
			b.close()
			return nil, err
		}
	}
	if b.table, err = qualified(ctx, b.finder, l.Table); err == nil {
		_, err = b.finder.Exec(ctx, "SELECT consumer, event_id, status, claimed_at, completed_at FROM "+b.table+" "+
			"LIMIT 0")
	}
	if err == nil {
		return b, nil
	}
	b.close()
	if code := sqlstate.Of(err); code == sqlstate.UndefinedTable || code == sqlstate.UndefinedColumn ||
		code == sqlstate.SyntaxError {
		return nil, &fault.Error{
			Kind: fault.Config, Object: "ledger of " + l.Consumer,
			Err:  errors.New("the database has no such table, or it is not a ledger of package inbox"),
			Next: "Name the ledger's table with --ledger, and its database with --consumer NAME=DSN.",
		}
	}
	return nil, postgres.QueryFault("ledger of "+l.Consumer, err)
}

// qualified looks a table up by the search path of the role and the database, as package inbox does, and gives it its
// schema: this session has a path of its own. A table that is not found keeps its name.
func qualified(ctx context.Context, conn *pgx.Conn, table string) (name string, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL search_path = DEFAULT"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT coalesce((SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
			WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1::pg_catalog.text)), $1::pg_catalog.text)`,
			table).Scan(&name)
	})
	return name, err
}

func (b *ledgerConn) close() {
	for _, conn := range []*pgx.Conn{b.conn, b.finder} {
		if conn != nil {
			postgres.CloseConn(conn)
		}
	}
}

const ledgerColumns = "SELECT event_id, COALESCE(completed_at, claimed_at), status = 'COMPLETED' FROM "

// rows streams the ledger's rows since a time, by id.
func (b *ledgerConn) rows(ctx context.Context, consumer string, since time.Time) iter.Seq2[handled, error] {
	sql := ledgerColumns + b.table + ` WHERE consumer = $1 AND claimed_at >= $2 ORDER BY event_id COLLATE "C"`
	return stream(ctx, b.conn, "ledger", sql, []any{consumer, since}, scanHandled)
}

func scanHandled(rows pgx.Rows, h *handled) error { return rows.Scan(&h.id, &h.at, &h.done) }

// find looks ids up.
func (b *ledgerConn) find(ctx context.Context, consumer string, ids []string) (map[string]handled, error) {
	found := map[string]handled{}
	sql := ledgerColumns + b.table + " WHERE consumer = $1 AND event_id = ANY ($2::text[])"
	for h, err := range stream(ctx, b.finder, "ledger", sql, []any{consumer, ids}, scanHandled) {
		if err != nil {
			return nil, err
		}
		found[h.id] = h
	}
	return found, nil
}

// stream gives the rows of a query as they arrive.
func stream[T any](
	ctx context.Context, conn *pgx.Conn, object, sql string, args []any, scan func(pgx.Rows, *T) error,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var row T
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			yield(row, postgres.QueryFault(object, err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows, &row); err != nil {
				yield(row, postgres.QueryFault(object, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(row, postgres.QueryFault(object, err))
		}
	}
}
