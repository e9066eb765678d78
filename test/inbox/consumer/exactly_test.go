package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// proveExactlyOnce has two members handle events of which every one is there two or three times, while the second joins
// and leaves again and backends are killed; then there is one effect for each event, and the effects of each key were
// in order.
func proveExactlyOnce(
	t *testing.T, opts consumer.Options, strategy inbox.Strategy, batches bool, produce func(...*kgo.Record),
) {
	db := testkit.Postgres(t)
	ddl, err := inbox.Schema(inbox.Options{})
	require.NoError(t, err)
	db.Exec(t, ddl+"CREATE TABLE effects (n bigserial, key text, event int)")
	pool, err := pgxpool.New(t.Context(), db.DSN)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing", Strategy: strategy})
	require.NoError(t, err)
	opts.Healthy, opts.Recent, opts.Attempts = in.Ping, -1, 100
	var calls, together atomic.Int32
	effect := func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
		if calls.Add(1)%50 == 0 {
			_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO effects (key, event) VALUES ($1, $2::int)", string(m.Key), m.ID)
		return err
	}
	start := func(t *testing.T) (stop func() error) {
		if !batches {
			return start(t, opts, consumer.InTx(in, effect))
		}
		opts.Batch = 20
		return startBatch(t, opts, consumer.BatchInTx(in,
			func(ctx context.Context, tx pgx.Tx, ms []consumer.Message) error {
				if len(ms) > 1 {
					together.Add(1)
				}
				for _, m := range ms {
					if err := effect(ctx, tx, m); err != nil {
						return err
					}
				}
				return nil
			}))
	}

	const events = 600
	var records []*kgo.Record
	for i := range events {
		records = append(records, record(strconv.Itoa(i%7), strconv.Itoa(i)))
		if i%20 == 19 { // a rewind
			records = append(records, records[max(0, len(records)-20-rand.IntN(20)):]...)
		}
	}
	produce(clones(records)...)
	count := func(from string) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n))
		return n
	}
	start(t)
	require.Eventually(t, func() bool { return count("effects") > events/10 }, 60*time.Second, 10*time.Millisecond)
	stop := start(t)
	require.Eventually(t, func() bool { return count("effects") > events/2 }, 120*time.Second, 10*time.Millisecond)
	require.NoError(t, stop())
	require.Eventually(t, func() bool { return count("(SELECT DISTINCT event FROM effects) e") == events },
		120*time.Second, 20*time.Millisecond)
	require.Equal(t, events, count("effects"))
	require.Zero(t,
		count("(SELECT event < lag(event) OVER (PARTITION BY key ORDER BY n) AS late FROM effects) e WHERE late"))
	require.Equal(t, events, count("processed_events WHERE status = 'COMPLETED'"))
	require.Equal(t, batches, together.Load() > 0)
}

// clones: kgo.Produce owns a record once it has it, so a repeat needs one of its own.
func clones(records []*kgo.Record) (out []*kgo.Record) {
	for _, r := range records {
		c := *r
		out = append(out, &c)
	}
	return out
}

func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	for _, strategy := range []inbox.Strategy{inbox.Insert, inbox.Advisory} {
		for _, batches := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, batches: %v", strategy, batches), func(t *testing.T) {
				b := newBed(t, 4)
				proveExactlyOnce(t, b.options(), strategy, batches,
					func(records ...*kgo.Record) { b.produce(t, records...) })
			})
		}
	}
}
