package setup

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

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
func awaitCommitting(ctx context.Context, conn *pgx.Conn, exported string) error {
	var list string
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT "+identifier.QuoteLiteral(exported)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT pg_catalog.pg_current_snapshot()::text").Scan(&list)
	})
	if err != nil {
		return err
	}
	for {
		var committing bool
		if err := conn.QueryRow(ctx, committingSQL, list).Scan(&committing); err != nil || !committing {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(committingPause):
		}
	}
}
