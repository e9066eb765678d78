package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestEachOrderHasItsEvent(t *testing.T) {
	db := testkit.Postgres(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, db.DSN, 10*time.Millisecond) }()
	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var orders, events int
	require.Eventually(t, func() bool {
		err := conn.QueryRow(t.Context(), `SELECT count(*),
			(SELECT count(*) FROM outbox WHERE aggregate_id IN (SELECT id::text FROM example_orders))
			FROM example_orders`).Scan(&orders, &events)
		return err == nil && orders >= 5 // an error at first, because the program creates the tables
	}, time.Minute, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, orders, events)
}
