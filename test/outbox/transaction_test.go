package outbox_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

func TestATransactionThatHasEndedIsRefused(t *testing.T) {
	conn, db := connect(t, outbox.Options{})
	for name, end := range map[string]func(pgx.Tx) error{
		"committed":           func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		"rolled back":         func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		"committed with SQL":  func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "COMMIT"); return err },
		"no transaction left": func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "ROLLBACK"); return err },
	} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, end(tx))
		require.ErrorIs(t, outbox.Insert(t.Context(), tx, paid()), outbox.ErrClosed, name)
		require.ErrorIs(t, standard(t).Emit(t.Context(), tx, paid()), outbox.ErrClosed, name)
		_ = tx.Rollback(t.Context())
	}
	pool, err := sql.Open("pgx", db.DSN)
	require.NoError(t, err)
	defer func() { _ = pool.Close() }()
	tx, err := pool.Begin()
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, outbox.InsertSQL(t.Context(), tx, paid()), outbox.ErrClosed)
	require.ErrorIs(t, standard(t).EmitSQL(t.Context(), tx, paid()), outbox.ErrClosed)
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
	require.Zero(t, n)
}

func TestQueue(t *testing.T) {
	conn, _ := connect(t, outbox.Options{})
	var batch pgx.Batch
	bad := paid()
	bad.Type = ""
	require.Error(t, standard(t).Queue(t.Context(), &batch, bad))
	require.NoError(t, standard(t).Queue(t.Context(), &batch))
	require.Zero(t, batch.Len())
	batch.Queue("CREATE TABLE orders (id int)")
	another := outbox.Event{AggregateType: "order", AggregateID: "1", Type: "x"}
	require.NoError(t, standard(t).Queue(t.Context(), &batch, paid(), another))
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		return tx.SendBatch(t.Context(), &batch).Close()
	}))
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
	require.Equal(t, 2, n)
}

func TestPartitionedTable(t *testing.T) {
	opts := outbox.Options{Partitioned: true, Table: "Out"}
	conn, db := connect(t, opts)
	today := time.Now()
	ddl, err := outbox.Partitions(opts, today, 3)
	require.NoError(t, err)
	db.Exec(t, ddl)
	db.Exec(t, ddl)
	o, err := outbox.New(opts)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		old := paid()
		old.Timestamp = today.AddDate(0, -1, 0)
		return o.Insert(t.Context(), tx, paid(), old)
	}))
	rows, err := conn.Query(t.Context(), `SELECT tableoid::regclass::text FROM "Out" ORDER BY created_at`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{`"Out_default"`, today.UTC().Format(`"Out_20060102"`)}, got)
	_, err = outbox.Partitions(outbox.Options{}, today, 3)
	require.Error(t, err)
}
