package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/outbox/outboxtest"
)

func named(ids ...string) (events []outbox.Event) {
	for _, id := range ids {
		events = append(events, outbox.Event{AggregateType: "order", AggregateID: id, Type: "paid"})
	}
	return events
}

func keys(events []outbox.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.AggregateID)
	}
	return ids
}

// What a transaction has written is what it sees in the end, also by savepoints, and nothing of others: of what was
// committed before it began, of what is committed meanwhile, and of what is not committed yet.
func TestTheEventsOfATransaction(t *testing.T) {
	opts := outbox.Options{Schema: "Shop", Table: "Out Box"}
	conn, db := connect(t, opts)
	o, err := outbox.New(opts)
	require.NoError(t, err)
	other, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	commit := func(ids ...string) {
		require.NoError(t, pgx.BeginFunc(t.Context(), other, func(tx pgx.Tx) error {
			return o.Insert(t.Context(), tx, named(ids...)...)
		}))
	}
	commit("before")
	db.Exec(t, `VACUUM (FREEZE) "Shop"."Out Box"`)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	written := func() []string {
		events, err := outboxtest.Events(t.Context(), tx, opts)
		require.NoError(t, err)
		return keys(events)
	}
	require.Empty(t, written(), "it has no transaction id yet")
	require.NoError(t, o.Insert(t.Context(), tx, named("a", "b")...))
	commit("meanwhile")
	open, err := other.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, o.Insert(t.Context(), open, named("open")...))
	require.NoError(t, pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
		return o.Insert(t.Context(), tx, named("c")...)
	}))
	failed := errors.New("fails")
	require.ErrorIs(t, pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
		require.NoError(t, o.Insert(t.Context(), tx, named("undone")...))
		return failed
	}), failed)
	require.NoError(t, o.Insert(t.Context(), tx, named("d")...))
	require.NoError(t, open.Commit(t.Context()))
	require.Equal(t, []string{"a", "b", "c", "d"}, written())
	require.NoError(t, tx.Commit(t.Context()))

	tx, err = conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "CREATE TEMP TABLE it_has_an_id ()")
	require.NoError(t, err)
	require.Empty(t, written())
	require.NoError(t, tx.Rollback(t.Context()))
}

// An event comes back as it was given, in each type of payload and through database/sql.
func TestTheFieldsOfAnEvent(t *testing.T) {
	for payload, want := range map[outbox.PayloadType]any{
		outbox.JSONB: json.RawMessage(`{"n": 1}`), outbox.JSON: json.RawMessage(`{"n":1}`), outbox.Text: `{"n":1}`,
		outbox.Bytea: []byte(`{"n":1}`),
	} {
		t.Run(string(payload), func(t *testing.T) {
			opts := outbox.Options{Payload: payload}
			_, db := connect(t, opts)
			pool, err := sql.Open("pgx", db.DSN)
			require.NoError(t, err)
			defer pool.Close()
			o, err := outbox.New(opts)
			require.NoError(t, err)
			tx, err := pool.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			event := outbox.Event{
				ID: outbox.NewID(), AggregateType: "order", AggregateID: "42", Type: "paid",
				Payload: map[string]int{"n": 1}, Headers: map[string]string{"tenant": "ä\"1"},
			}
			tombstone := named("43")[0]
			require.NoError(t, o.InsertSQL(t.Context(), tx, event, tombstone))
			events, err := outboxtest.EventsSQL(t.Context(), tx, opts)
			require.NoError(t, err)
			require.Len(t, events, 2)
			require.False(t, events[0].Timestamp.IsZero())
			event.Payload, event.Timestamp = want, events[0].Timestamp
			require.Equal(t, event, events[0])
			require.Nil(t, events[1].Payload)
			require.Nil(t, events[1].Headers)
		})
	}
}
