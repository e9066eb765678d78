package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// republishBatch is how many rows one transaction publishes again.
const republishBatch = 500

// EventIDs returns the ids of the table's rows as text, in the order in which they were written as far as the table
// tells. since, where not zero, leaves out older ones.
func EventIDs(ctx context.Context, dsn string, cfg AdminConfig, table Table, since time.Time) (ids []string, err error) {
	cfg = cfg.withDefaults()
	err = withAdminConn(ctx, dsn, cfg, func(conn *pgx.Conn) error {
		sql := fmt.Sprintf("SELECT %s::text FROM %s", QuoteIdentifier(cfg.Columns.ID), table.SQL())
		var args []any
		if ts := cfg.Columns.Timestamp; ts != "" {
			if !since.IsZero() {
				sql, args = sql+fmt.Sprintf(" WHERE %s >= $1", QuoteIdentifier(ts)), []any{since}
			}
			sql += " ORDER BY " + QuoteIdentifier(ts) + ", 1"
		} else if !since.IsZero() {
			return &fault.Error{Kind: fault.Config, Object: "--since", Err: errors.New("no timestamp column is mapped")}
		}
		rows, err := conn.Query(ctx, sql, args...)
		if err == nil {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			return adminQueryFault("table "+table.String(), err)
		}
		return nil
	})
	return ids, err
}

// AwaitCaughtUp waits until the slot's reader has confirmed all that is written by now. It is false where nobody reads
// the slot, or where it has not got there within the limit.
func AwaitCaughtUp(ctx context.Context, dsn string, cfg AdminConfig, limit time.Duration) (done bool, err error) {
	cfg = cfg.withDefaults()
	err = withServers(ctx, dsn, cfg, func(conn servers) error {
		end, written := conn.Conn, `SELECT pg_last_wal_replay_lsn()::text`
		if conn.primary != nil {
			end, written = conn.primary, `SELECT pg_current_wal_lsn()::text`
		}
		var text string
		if err := end.QueryRow(ctx, written).Scan(&text); err != nil {
			return adminQueryFault("server", err)
		}
		to, err := pglogrepl.ParseLSN(text)
		if err != nil {
			return err
		}
		for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
			slot, err := LookupSlot(ctx, conn, cfg.Slot)
			if err != nil {
				return adminQueryFault(slotSubject(cfg), err)
			}
			if slot.ActivePID == 0 {
				return nil
			}
			// Over WAL without events the slot may be held back a little, see memory.
			if done = slot.ConfirmedFlush+memoryStep >= to; done {
				return nil
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(500 * time.Millisecond):
			}
		}
		return nil
	})
	return done, err
}

// Republish deletes and inserts the rows of these ids, which publishes them once more under their own ids: the delete is
// no event, the insert is one, at a new position. The rows must not be referenced by others that go with them.
func Republish(ctx context.Context, dsn string, cfg AdminConfig, table Table, ids []string) (n int64, err error) {
	cfg = cfg.withDefaults()
	err = withServers(ctx, dsn, cfg, func(s servers) error {
		conn := s.primary
		if conn == nil {
			return &fault.Error{Kind: fault.Operator, Object: "table " + table.String(), Err: errors.New("a standby cannot be written, and postgres.primary_dsn is not set"), Next: "Set postgres.primary_dsn for this command."}
		}
		sql, err := republishSQL(ctx, conn, cfg, table)
		if err != nil {
			return adminQueryFault("table "+table.String(), err)
		}
		for len(ids) > 0 {
			batch := ids[:min(republishBatch, len(ids))]
			ids = ids[len(batch):]
			tag, err := conn.Exec(ctx, sql, batch)
			if err != nil {
				return adminQueryFault("table "+table.String(), err)
			}
			n += tag.RowsAffected()
		}
		return nil
	})
	return n, err
}

func republishSQL(ctx context.Context, q Querier, cfg AdminConfig, table Table) (string, error) {
	info, err := lookupTable(ctx, q, table)
	if err != nil {
		return "", err
	}
	if _, ok := info.column(cfg.Columns.ID); !ok {
		return "", fmt.Errorf("it has no column %s", QuoteIdentifier(cfg.Columns.ID))
	}
	var columns []string
	for _, c := range info.Columns {
		if !c.Generated {
			columns = append(columns, QuoteIdentifier(c.Name))
		}
	}
	list, order := strings.Join(columns, ", "), ""
	if cfg.Columns.Timestamp != "" {
		order = " ORDER BY " + QuoteIdentifier(cfg.Columns.Timestamp)
	}
	return fmt.Sprintf("WITH gone AS (DELETE FROM %[1]s WHERE %[2]s = ANY ($1::text[]::%[5]s[]) RETURNING *) INSERT INTO %[1]s (%[3]s) OVERRIDING SYSTEM VALUE SELECT %[3]s FROM gone%[4]s",
		table.SQL(), QuoteIdentifier(cfg.Columns.ID), list, order, info.castType(cfg.Columns.ID)), nil
}
