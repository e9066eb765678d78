package testkit_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestPostgresSeparateDatabases(t *testing.T) {
	a, b := testkit.Postgres(t), testkit.Postgres(t)
	require.Equal(t, a.Port(), b.Port())
	require.NotEqual(t, a.Name, b.Name)
	a.Exec(t, "CREATE TABLE only_here ()")
	a.Exec(t, "SELECT pg_create_logical_replication_slot('"+a.Slot+"', 'pgoutput')")
	conn, err := pgx.Connect(t.Context(), b.DSN)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relname = 'only_here'").Scan(&n))
	require.Zero(t, n)
}

func TestFakeBrokerAndNames(t *testing.T) {
	b := testkit.FakeBroker(t, fakebroker.Options{})
	one, two := testkit.Name(t), testkit.Name(t)
	require.NotEqual(t, one, two)
	require.Regexp(t, "^[a-z0-9_]{1,50}$", one)
	require.NoError(t, b.Create(t.Context(), kafkaclient.Topic{Name: one}))
	n, err := b.Count(t.Context(), one)
	require.NoError(t, err)
	require.Zero(t, n)
}
