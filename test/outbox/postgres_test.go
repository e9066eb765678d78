package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func connect(t *testing.T, opts outbox.Options) (*pgx.Conn, *testkit.Database) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	db := testkit.Postgres(t)
	ddl, err := outbox.Schema(opts)
	require.NoError(t, err)
	if opts.Schema != "" {
		db.Exec(t, "CREATE SCHEMA "+pgx.Identifier{opts.Schema}.Sanitize())
	}
	db.Exec(t, ddl)
	db.Exec(t, ddl) // a second time does nothing
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn, db
}

// inserter is Insert or InsertSQL in a transaction that it commits.
type inserter func(t *testing.T, o *outbox.Outbox, events ...outbox.Event) error

func inserters(t *testing.T, conn *pgx.Conn, db *testkit.Database) map[string]inserter {
	pool, err := sql.Open("pgx", db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	// What poolers in transaction mode need: parameters are written into the SQL, nothing is prepared.
	cfg := conn.Config()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	simple, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = simple.Close(context.Background()) })
	viaPgx := func(conn *pgx.Conn) inserter {
		return func(t *testing.T, o *outbox.Outbox, events ...outbox.Event) error {
			return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				return o.Insert(t.Context(), tx, events...)
			})
		}
	}
	return map[string]inserter{
		"pgx":                  viaPgx(conn),
		"pgx, simple protocol": viaPgx(simple),
		"database/sql": func(t *testing.T, o *outbox.Outbox, events ...outbox.Event) error {
			tx, err := pool.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			if err := o.InsertSQL(t.Context(), tx, events...); err != nil {
				require.NoError(t, tx.Rollback())
				return err
			}
			return tx.Commit()
		},
	}
}

func TestInsert(t *testing.T) {
	opts := outbox.Options{Schema: `My "Schema"`, Table: `Out.box; --`, Payload: outbox.JSON}
	table := pgx.Identifier{opts.Schema, opts.Table}.Sanitize()
	conn, db := connect(t, opts)
	o, err := outbox.New(opts)
	require.NoError(t, err)
	for name, insert := range inserters(t, conn, db) {
		t.Run(name, func(t *testing.T) {
			_, err := conn.Exec(t.Context(), "TRUNCATE "+table)
			require.NoError(t, err)
			at := time.Date(2026, 11, 21, 8, 17, 0, 123456999, time.FixedZone("", 3600))
			require.NoError(t, insert(t, o))
			require.NoError(t, insert(t, o,
				outbox.Event{
					ID: someID, AggregateType: "order", AggregateID: `{"4",2\`, Type: "NULL",
					Payload: json.RawMessage(`{"a" : "\"x\\"}`),
					Headers: map[string]string{"a": "{\"\\\n"}, Timestamp: at,
				},
				outbox.Event{AggregateType: "order", AggregateID: "43", Type: "cancelled"}))

			rows, err := conn.Query(t.Context(), `
				SELECT id::text, aggregate_id, event_type, payload::text, headers->>'a', created_at
				FROM `+table+" ORDER BY event_type")
			require.NoError(t, err)
			type row struct {
				ID, Key, Type   string
				Payload, Header *string
				At              time.Time
			}
			got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
			require.NoError(t, err)
			require.Len(t, got, 2)
			require.Equal(t, someID, got[0].ID)
			require.Equal(t, `{"4",2\`, got[0].Key)
			require.Equal(t, "NULL", got[0].Type)
			require.Equal(t, `{"a" : "\"x\\"}`, *got[0].Payload)
			require.Equal(t, "{\"\\\n", *got[0].Header)
			require.True(t, at.Truncate(time.Microsecond).Equal(got[0].At))
			require.Nil(t, got[1].Payload)
			require.Nil(t, got[1].Header)
			require.WithinDuration(t, time.Now(), got[1].At, time.Minute)
		})
	}
}

func TestInsertKeepsTheOrder(t *testing.T) {
	conn, db := connect(t, outbox.Options{})
	_, err := conn.Exec(t.Context(), "ALTER TABLE outbox ADD n bigserial")
	require.NoError(t, err)
	for name, insert := range inserters(t, conn, db) {
		t.Run(name, func(t *testing.T) {
			_, err := conn.Exec(t.Context(), "TRUNCATE outbox RESTART IDENTITY")
			require.NoError(t, err)
			events := make([]outbox.Event, 5000)
			for i := range events {
				id := strconv.Itoa(i + 1)
				events[i] = outbox.Event{AggregateType: "order", AggregateID: id, Type: "placed", Payload: i}
			}
			require.NoError(t, insert(t, standard(t), events...))
			var count, misplaced int
			row := conn.QueryRow(t.Context(),
				"SELECT count(*), count(*) FILTER (WHERE n <> aggregate_id::int) FROM outbox")
			require.NoError(t, row.Scan(&count, &misplaced))
			require.Equal(t, len(events), count)
			require.Zero(t, misplaced)
		})
	}
}

func TestPayloadTypes(t *testing.T) {
	tests := map[outbox.PayloadType]struct {
		payload any
		want    string
	}{
		outbox.JSONB: {json.RawMessage(`{"b": 1, "a":1.50}`), `{"a": 1.50, "b": 1}`},
		outbox.JSON:  {json.RawMessage(`{"b": 1, "a":1.50}`), `{"b": 1, "a":1.50}`},
		outbox.Text:  {`"{NULL,\x`, `"{NULL,\x`},
		outbox.Bytea: {[]byte{0, '"', '\\', 0xff}, `\x00225cff`},
	}
	for typ, test := range tests {
		t.Run(string(typ), func(t *testing.T) {
			opts := outbox.Options{Payload: typ}
			conn, db := connect(t, opts)
			o, err := outbox.New(opts)
			require.NoError(t, err)
			for name, insert := range inserters(t, conn, db) {
				e := paid()
				e.ID, e.Payload = "", test.payload
				require.NoError(t, insert(t, o, e), name)
			}
			rows, err := conn.Query(t.Context(), "SELECT payload::text FROM outbox")
			require.NoError(t, err)
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.Equal(t, []string{test.want, test.want, test.want}, got)
		})
	}
}

// An event that is invalid must not cost the transaction, and one that Postgres refuses must say why.
func TestRefusedInserts(t *testing.T) {
	conn, _ := connect(t, outbox.Options{})
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	bad := paid()
	bad.AggregateType = "a/b"
	var invalid *outbox.EventError
	require.ErrorAs(t, outbox.Insert(t.Context(), tx, bad), &invalid)
	require.NoError(t, outbox.Insert(t.Context(), tx, paid()))
	require.NoError(t, tx.Commit(t.Context()))

	tx, err = conn.Begin(t.Context())
	require.NoError(t, err)
	err = outbox.Insert(t.Context(), tx, paid())
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "23505", pgErr.Code, "the id is there already")
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestRolledBackEventsAreGone(t *testing.T) {
	conn, _ := connect(t, outbox.Options{})
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, outbox.Insert(t.Context(), tx, paid()))
	require.NoError(t, tx.Rollback(t.Context()))
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
	require.Zero(t, n)
}

// Rows written without this package meet the same rules in the table itself.
func TestTableRefuses(t *testing.T) {
	conn, _ := connect(t, outbox.Options{})
	insert := func(aggregateType, aggregateID, eventType, headers any) error {
		_, err := conn.Exec(t.Context(), `
			INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers)
			VALUES ($1, $2, $3, '{}', $4)`, aggregateType, aggregateID, eventType, headers)
		return err
	}
	require.NoError(t, insert("order", "42", "paid", nil))
	require.NoError(t, insert("_o.r-9", "42", "paid", `{"Id": "is another name", "n": 1}`))
	bad := [][4]any{
		{"", "42", "paid", nil},
		{"a/b", "42", "paid", nil},
		{"__x", "42", "paid", nil},
		{"..", "42", "paid", nil},
		{"a\n", "42", "paid", nil},
		{nil, "42", "paid", nil},
		{"order", "", "paid", nil},
		{"order", nil, "paid", nil},
		{"order", "42", "", nil},
		{"order", "42", "paid", `[1]`},
		{"order", "42", "paid", `"x"`},
		{"order", "42", "paid", `{"id": "1"}`},
		{"order", "42", "paid", `{"": "1"}`},
	}
	for _, row := range bad {
		require.Error(t, insert(row[0], row[1], row[2], row[3]), "%v", row)
	}
}
