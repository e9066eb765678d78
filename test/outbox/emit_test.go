package outbox_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	preset "github.com/cdc-outbox/cdc-outbox/router/outbox"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// The relay makes the same record of a message as of the row.
func TestAMessageIsRoutedLikeTheRow(t *testing.T) {
	for _, typ := range []outbox.PayloadType{outbox.JSON, outbox.Text, outbox.Bytea} {
		o, err := outbox.New(outbox.Options{Payload: typ})
		require.NoError(t, err)
		payloads := map[string]any{
			"JSON": json.RawMessage(`{"b" : 1.50, "<a>":"\u00e4"}`), "text": "\"<ä\\\n", "nothing": nil,
		}
		for name, payload := range payloads {
			t.Run(fmt.Sprint(typ, " ", name), func(t *testing.T) {
				e := outbox.Event{
					ID: someID, AggregateType: "order", AggregateID: "4\"2<", Type: "order_paid", Payload: payload,
					Headers:   map[string]string{"traceparent": "00-ab", "x": "<\"\n"},
					Timestamp: time.Date(2026, 11, 21, 8, 17, 0, 123456000, time.UTC),
				}
				want, err := routeRow(t, insertedRow(t, o, e))
				require.NoError(t, err)
				r, err := preset.New(preset.Config{Columns: preset.DefaultColumns(), Topic: preset.DefaultTopic})
				require.NoError(t, err)
				emitted := []byte(emittedMessage(t, o, e))
				rel, row, err := r.Message(&pgoutput.LogicalMessage{Prefix: "outbox", Content: emitted})
				require.NoError(t, err)
				got, err := r.Route(rel, row, someSource())
				require.NoError(t, err)
				require.Equal(t, want.Key, got.Key)
				if typ != outbox.Bytea { // the row in this test has no column types, so its bytea stays in hex
					require.Equal(t, want.Value, got.Value)
				}
				require.Equal(t, want.Headers, got.Headers)
				require.Equal(t, want.Timestamp, got.Timestamp)
			})
		}
	}
}

func TestEmit(t *testing.T) {
	conn, db := connect(t, outbox.Options{})
	db.Exec(t, "CREATE PUBLICATION "+db.Publication)
	db.Exec(t, "SELECT pg_create_logical_replication_slot('"+db.Slot+"', 'pgoutput')")
	o, err := outbox.New(outbox.Options{Prefix: "shop"})
	require.NoError(t, err)
	event := func(id string) outbox.Event {
		return outbox.Event{AggregateType: "order", AggregateID: id, Type: "paid"}
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		savepoint, err := tx.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, o.Emit(t.Context(), savepoint, event("regretted")))
		require.NoError(t, savepoint.Rollback(t.Context()))
		require.NoError(t, o.Emit(t.Context(), tx))
		return o.Emit(t.Context(), tx, event("first"), event("second"))
	}))
	pool, err := sql.Open("pgx", db.DSN)
	require.NoError(t, err)
	defer func() { _ = pool.Close() }()
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := pool.Begin()
		require.NoError(t, err)
		require.NoError(t, o.EmitSQL(t.Context(), tx, event("third")))
		require.NoError(t, end(tx))
	}
	rows, err := conn.Query(t.Context(), `SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL,
		'proto_version', '1', 'publication_names', $2, 'messages', 'true')`, db.Slot, db.Publication)
	require.NoError(t, err)
	changes, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	require.NoError(t, err)
	var keys []string
	for _, c := range changes {
		if c[0] != 'M' {
			continue
		}
		require.Contains(t, string(c[:20]), "shop\x00")
		var content struct {
			Key string `json:"aggregate_id"`
		}
		require.NoError(t, json.Unmarshal(c[bytes.IndexByte(c, '{'):], &content))
		keys = append(keys, content.Key)
	}
	require.Equal(t, []string{"first", "second", "third"}, keys)
}
