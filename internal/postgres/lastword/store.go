package lastword

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// Patience bounds each use of the table, connecting included: a shutdown must not wait for it.
const Patience = 2 * time.Second

// Place is the row that keeps the word.
type Place struct {
	DSN   func() (string, error) // of the server that can be written
	Table identifier.Table       // the checkpoint's; nothing is kept where it has no name
	Slot  string
	Own   bool // the row is for the word alone, so it is created with the first
}

// Write keeps the word. It returns false where there is no row or no column to keep it in.
func (p Place) Write(ctx context.Context, w Word) (kept bool, err error) {
	text, err := json.Marshal(w)
	if err != nil {
		return false, err
	}
	err = p.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		sql := `UPDATE %s SET last_word = $2::jsonb WHERE slot = $1::text`
		if p.Own {
			sql = `INSERT INTO %s (slot, system_id, timeline, position, last_word)
				VALUES ($1::text, '', 0, '0/0', $2::jsonb)
				ON CONFLICT (slot) DO UPDATE SET last_word = excluded.last_word`
		}
		tag, err := conn.Exec(ctx, fmt.Sprintf(sql, p.Table.SQL()), p.Slot, string(text))
		kept = err == nil && tag.RowsAffected() > 0
		return err
	})
	return kept, err
}

// Read returns the last word, nil where there is none. known is false where there is no row that could hold one.
func (p Place) Read(ctx context.Context) (w *Word, known bool, err error) {
	err = p.with(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		w, known, err = Lookup(ctx, conn, p.Table, p.Slot)
		if err == nil && !known && p.Own { // whether the row could be created
			_, err = conn.Exec(ctx, fmt.Sprintf(`SELECT last_word FROM %s LIMIT 0`, p.Table.SQL()))
			known = err == nil
		}
		return err
	})
	return w, known, err
}

// Lookup reads the last word of a slot, nil where there is none. known is false where there is no table, column or row
// that could hold one.
func Lookup(ctx context.Context, q postgres.Querier, t identifier.Table, slot string) (w *Word, known bool, err error) {
	if t.Name == "" {
		return nil, false, nil
	}
	var text *string
	err = q.QueryRow(ctx, fmt.Sprintf(`SELECT to_jsonb(m) ? 'last_word', to_jsonb(m)->>'last_word' FROM %s m
		WHERE slot = $1::text`, t.SQL()), slot).Scan(&known, &text)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || absent(err):
		return nil, false, nil
	case err != nil || text == nil:
		return nil, known, err
	}
	if err := json.Unmarshal([]byte(*text), &w); err != nil {
		return nil, known, nil //nolint:nilerr // a row that an operator has edited says nothing
	}
	return w, known, nil
}

// Confirmed returns when the slot's position was last written; nil where that is not known.
func (p Place) Confirmed(ctx context.Context) (at *time.Time, err error) {
	err = p.with(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		at, err = postgres.LookupConfirmed(ctx, conn, p.Table, p.Slot)
		return err
	})
	return at, err
}

// All returns the words of the table's slots, none if there is no table.
func (p Place) All(ctx context.Context) (all map[string]*Word, err error) {
	err = p.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if is, err := postgres.IsTable(ctx, conn, p.Table); err != nil || !is {
			return err
		}
		rows, err := conn.Query(ctx, fmt.Sprintf(`SELECT slot, last_word::text FROM %s WHERE last_word IS NOT NULL`,
			p.Table.SQL()))
		if err != nil {
			return err
		}
		defer rows.Close()
		all = map[string]*Word{}
		for rows.Next() {
			var slot, text string
			if err := rows.Scan(&slot, &text); err != nil {
				return err
			}
			var w Word
			if json.Unmarshal([]byte(text), &w) == nil {
				all[slot] = &w
			}
		}
		return rows.Err()
	})
	return all, err
}

// End marks the word as over: the relay works again.
func (p Place) End(ctx context.Context, now time.Time) error {
	return p.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf(`UPDATE %s
			SET last_word = last_word || jsonb_build_object('over', $2::text)
			WHERE slot = $1::text AND last_word IS NOT NULL AND NOT last_word ? 'over'`, p.Table.SQL()),
			p.Slot, now.UTC().Format(time.RFC3339Nano))
		return err
	})
}

// with opens a connection for one statement. A server that does not answer is given up at once when the time is over,
// without asking it to cancel anything.
func (p Place) with(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	if p.Table.Name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	dsn, err := p.DSN()
	if err != nil {
		return err
	}
	pc, err := postgres.ParseConfig(dsn)
	if err != nil {
		return postgres.DSNFault(dsn)
	}
	delete(pc.RuntimeParams, "replication")
	pc.RuntimeParams["application_name"] = "cdc-outbox last word"
	pc.DefaultQueryExecMode = pgx.QueryExecModeExec // a transaction pooler may lie in between
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return postgres.ConnectFault(pc, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := session.Pin(ctx, conn.PgConn()); err != nil {
		return err
	}
	// The server gives up first, so that nothing is left running there. The commit waits for no standby.
	_, err = conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d; SET synchronous_commit = local; "+
		"SET default_transaction_read_only = off", (Patience/2).Milliseconds()), pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		err = do(ctx, conn)
	}
	if absent(err) {
		return nil
	}
	return err
}

// absent: no table, schema or column.
func absent(err error) bool {
	switch sqlstate.Of(err) {
	case sqlstate.UndefinedTable, sqlstate.UndefinedSchema, sqlstate.UndefinedColumn:
		return true
	}
	return false
}
