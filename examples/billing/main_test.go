package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/examples/shop"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestEachEventIsBilledOnce(t *testing.T) {
	db := testkit.Postgres(t)
	broker := testkit.FakeBroker(t, fakebroker.Options{Topics: map[string]int32{shop.Topic: 1, shop.Topic + ".DLT": 1}})
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...))
	require.NoError(t, err)
	defer producer.Close()
	for _, r := range [][2]string{
		{"a", `{"order": 1, "cents": 5}`},
		{"bad", `{`},
		{"b", `{"order": 1, "cents": 6}`},
		{"a", `{"order": 1, "cents": 5}`},
		{"c", `{"order": 2, "cents": 7}`},
	} {
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{
			Topic: shop.Topic, Key: []byte("1"), Value: []byte(r[1]),
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(r[0])}},
		}).FirstErr())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, db.DSN, strings.Join(broker.Addrs(), ",")) }()
	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var lines string
	require.Eventually(t, func() bool {
		row := conn.QueryRow(t.Context(), "SELECT string_agg(event_id || cents, ' ' ORDER BY n) FROM billing_lines")
		return row.Scan(&lines) == nil && strings.HasSuffix(lines, "c7")
	}, 60*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, "a5 b6 c7", lines)
	letters, err := broker.Read(t.Context(), shop.Topic+".DLT")
	require.NoError(t, err)
	require.Len(t, letters, 1)
}
