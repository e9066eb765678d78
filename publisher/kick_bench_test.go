package publisher

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// BenchmarkCommitToConsumer measures from the end of a commit to a consumer that waits, for a service that commits five
// times a second: with kicks and without, real Postgres and the in-process broker.
//
//	go test -run '^$' -bench CommitToConsumer -benchtime 100x ./publisher
func BenchmarkCommitToConsumer(b *testing.B) {
	for _, kick := range []bool{true, false} {
		b.Run(map[bool]string{true: "kick", false: "poll"}[kick], func(b *testing.B) { commitToConsumer(b, kick) })
	}
}

func commitToConsumer(b *testing.B, kick bool) {
	db := testkit.Postgres(b)
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(b, err)
	defer broker.Close()
	admin, err := kafkaclient.New(broker.Addrs())
	require.NoError(b, err)
	defer admin.Close()
	require.NoError(b, admin.Create(b.Context(), kafkaclient.Topic{Name: topic, Partitions: 1}))
	p, err := New(Options{DSN: db.DSN, Brokers: broker.Addrs(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	sql, err := p.SQL(true)
	require.NoError(b, err)
	db.Exec(b, sql)
	pool, err := pgxpool.New(b.Context(), db.DSN)
	require.NoError(b, err)
	defer pool.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.ConsumeTopics(topic))
	require.NoError(b, err)
	defer consumer.Close()
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() { stop(); require.NoError(b, <-done) }()

	var took []time.Duration
	for n := range b.N + 1 {
		require.NoError(b, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return outbox.Insert(ctx, tx, outbox.Event{AggregateType: "order", AggregateID: "a", Type: "x"})
		}))
		committed := time.Now()
		if kick {
			p.Kick()
		}
		require.Len(b, consumer.PollRecords(ctx, 1).Records(), 1)
		if n > 0 { // the first one includes connecting
			took = append(took, time.Since(committed))
		}
		//waits:ok the pace of the service that is measured
		time.Sleep(200 * time.Millisecond)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
}
