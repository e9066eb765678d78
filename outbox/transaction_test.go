package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestATransactionThatHasEndedIsRefused(t *testing.T) {
	conn, db := connect(t, Options{})
	for name, end := range map[string]func(pgx.Tx) error{
		"committed":           func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		"rolled back":         func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		"committed with SQL":  func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "COMMIT"); return err },
		"no transaction left": func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "ROLLBACK"); return err },
	} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, end(tx))
		require.ErrorIs(t, Insert(t.Context(), tx, paid()), ErrClosed, name)
		require.ErrorIs(t, standard.Emit(t.Context(), tx, paid()), ErrClosed, name)
		_ = tx.Rollback(t.Context())
	}
	pool, err := sql.Open("pgx", db.DSN)
	require.NoError(t, err)
	defer func() { _ = pool.Close() }()
	tx, err := pool.Begin()
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, InsertSQL(t.Context(), tx, paid()), ErrClosed)
	require.ErrorIs(t, standard.EmitSQL(t.Context(), tx, paid()), ErrClosed)
	require.ErrorIs(t, Insert(t.Context(), nil, paid()), errNoTx)
	require.ErrorIs(t, InsertSQL(t.Context(), nil, paid()), errNoTx)
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
	require.Zero(t, n)
}

func TestQueue(t *testing.T) {
	conn, _ := connect(t, Options{})
	var batch pgx.Batch
	bad := paid()
	bad.Type = ""
	require.Error(t, standard.Queue(t.Context(), &batch, bad))
	require.NoError(t, standard.Queue(t.Context(), &batch))
	require.Zero(t, batch.Len())
	batch.Queue("CREATE TABLE orders (id int)")
	require.NoError(t, standard.Queue(t.Context(), &batch, paid(), Event{AggregateType: "order", AggregateID: "1", Type: "x"}))
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return tx.SendBatch(t.Context(), &batch).Close() }))
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
	require.Equal(t, 2, n)
}

func TestPartitionedTable(t *testing.T) {
	opts := Options{Partitioned: true, Table: "Out"}
	conn, db := connect(t, opts)
	today := time.Now()
	ddl, err := Partitions(opts, today, 3)
	require.NoError(t, err)
	db.Exec(t, ddl)
	db.Exec(t, ddl)
	o, err := New(opts)
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
	_, err = Partitions(Options{}, today, 3)
	require.Error(t, err)
}

func TestEnvelope(t *testing.T) {
	type data struct {
		Total json.Number `json:"total"`
	}
	o, err := New(Options{Headers: func(context.Context) map[string]string {
		return map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	}})
	require.NoError(t, err)
	var row [7]*string
	wrap := func(e Event) Envelope[data] {
		e.Version = 3
		require.NoError(t, o.rows(t.Context(), []Event{e}, func(r [7]*string) { row = r }))
		var got Envelope[data]
		require.NoError(t, json.Unmarshal([]byte(*row[4]), &got))
		return got
	}
	at := time.Date(2026, 11, 21, 8, 17, 0, 123456999, time.FixedZone("", 3600))
	e := Event{AggregateType: "order", AggregateID: "42", Type: "order_paid", Payload: data{"12.50"}, Timestamp: at}
	for _, payload := range []any{data{"12.50"}, []byte(`{"total": 12.50}`), json.RawMessage(`{"total": 12.50}`)} {
		e.Payload = payload
		got := wrap(e)
		require.Equal(t, *row[0], got.EventID, "one id for row and envelope")
		require.True(t, at.Truncate(time.Microsecond).Equal(got.OccurredAt))
		got.EventID, got.OccurredAt = "", time.Time{}
		require.Equal(t, Envelope[data]{EventType: "order_paid", EventVersion: 3, AggregateType: "order", AggregateID: "42",
			TraceID: "0af7651916cd43dd8448eb211c80319c", Data: data{"12.50"}}, got)
	}
	e.Timestamp, e.Headers = time.Time{}, map[string]string{"traceparent": "none"}
	got := wrap(e)
	require.WithinDuration(t, time.Now(), got.OccurredAt, time.Minute)
	require.NotNil(t, row[6], "row and envelope tell the same time")
	require.Empty(t, got.TraceID)

	e.Payload, e.Version = nil, 1
	require.NoError(t, o.rows(t.Context(), []Event{e}, func(r [7]*string) { row = r }))
	require.Nil(t, row[4], "a tombstone stays one")
	e.Payload = []byte("{")
	require.Error(t, o.rows(t.Context(), []Event{e}, func([7]*string) {}))
}
