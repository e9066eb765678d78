package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// committingPause is the time between two questions for a commit, which takes microseconds, or as long as a
// synchronous standby.
const committingPause = 2 * time.Millisecond

// committingSQL is true while a transaction runs that the exported snapshot, $1, takes as committed.
const committingSQL = `SELECT EXISTS (SELECT FROM pg_catalog.pg_snapshot_xip(pg_catalog.pg_current_snapshot()) AS xid
	WHERE pg_catalog.pg_visible_in_snapshot(xid, $1::text::pg_catalog.pg_snapshot))`

// awaitCommitting waits until the server knows every transaction as committed that is committed in an exported
// snapshot. Without it a table must not be read in that snapshot.
//
// A server writes a commit to the log, and a moment later to pg_xact (RecordTransactionCommit). The decoder that makes
// the snapshot has the commit from the log. A reader in between finds a transaction that has ended and is not
// committed, takes it for aborted, and marks its rows so on their page (HeapTupleSatisfiesMVCC, SetHintBits): they are
// lost for every reader. No reader does that with a snapshot of the running transactions, which a transaction leaves
// last (ProcArrayEndTransaction).
func awaitCommitting(ctx context.Context, conn *pgx.Conn, cfg Config, exported string) error {
	var list string
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT "+identifier.QuoteLiteral(exported)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT pg_catalog.pg_current_snapshot()::text").Scan(&list)
	})
	if err != nil {
		return postgres.QueryFault(cfg.SlotSubject(), err)
	}
	return cfg.awaitEnds(ctx, conn, list)
}

// awaitEnds waits until nothing runs that a list of transactions has as committed.
func (cfg Config) awaitEnds(ctx context.Context, conn *pgx.Conn, list string) error {
	for until := time.Now().Add(cfg.SlotWait); ; {
		var committing bool
		if err := conn.QueryRow(ctx, committingSQL, list).Scan(&committing); err != nil {
			return postgres.QueryFault(cfg.SlotSubject(), err)
		}
		switch {
		case !committing:
			return nil
		case time.Now().After(until):
			return cfg.committingFault()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(committingPause):
		}
	}
}

// committingFault is for commits that do not end.
func (cfg Config) committingFault() error {
	return (&fault.Error{
		Kind: fault.Retry, Object: cfg.SlotSubject(),
		Err: fmt.Errorf("tables are read with its snapshot once the commits that it has have ended, which did not "+
			"happen within %s: commits wait for synchronous standbys (synchronous_standby_names)", cfg.SlotWait),
	}).With(fault.Do("See which sessions wait, and bring back the standby. The slot is made again.",
		"SELECT pid, usename, wait_event FROM pg_stat_activity WHERE wait_event = 'SyncRep';"))
}
