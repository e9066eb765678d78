package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

const insertSteps = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
	SELECT 'orders', 'k' || g % 20, 'step', to_jsonb((SELECT count(*) FROM outbox) + g) FROM generate_series(1, 400) g`

// slowGroup is a consumer group that handles the partitions of a fetch at the same time.
type slowGroup struct {
	mu    sync.Mutex
	last  map[string]int
	count int
	used  map[int32]bool
	wrong []string
}

func (g *slowGroup) handle(r *kgo.Record) {
	time.Sleep(2 * time.Millisecond) //waits:ok the work, which lets the group fall behind
	var step int
	err := json.Unmarshal(r.Value, &step)
	g.mu.Lock()
	defer g.mu.Unlock()
	if key := string(r.Key); err != nil || step <= g.last[key] {
		g.wrong = append(g.wrong, key)
	} else {
		g.last[key] = step
	}
	g.count++
	g.used[r.Partition] = true
}

func (g *slowGroup) run(ctx context.Context, group *kgo.Client) {
	for ctx.Err() == nil {
		fetches := group.PollFetches(ctx)
		var all sync.WaitGroup
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			all.Go(func() {
				for _, r := range p.Records {
					g.handle(r)
				}
			})
		})
		all.Wait()
		_ = group.CommitUncommittedOffsets(ctx)
	}
}

func (g *slowGroup) handled() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// TestPartitionsAreAddedInAPause: the procedure of the runbook keeps the order of keys for a group that is behind. The
// first event after the pause is in its key's new partition, and the process reports the growth.
func TestPartitionsAreAddedInAPause(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			addInAPause(t, delivery)
		})
	}
}

func addInAPause(t *testing.T, delivery string) {
	b := newBed(t, testkit.Postgres(t), "orders.events")
	b.env = append(b.env, "CDC_OUTBOX_DELIVERY="+delivery)
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	b.db.Exec(t, insertSteps)
	b.records("orders.events", 400)

	group, err := kgo.NewClient(kgo.SeedBrokers(b.address), kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders.events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(100*time.Millisecond))
	require.NoError(t, err)
	g := &slowGroup{last: map[string]int{}, used: map[int32]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { g.run(ctx, group) })
	defer func() { cancel(); running.Wait(); group.Close() }()

	require.Equal(t, 0, invoke(t, b.env, "pause", "--reason", "add partitions").code)
	r.awaitAnswer("/readyz", "paused by")
	b.db.Exec(t, insertSteps)
	rest := int64(0)
	if delivery == "exactly_once" {
		rest = 1 // the marker that ends the transaction, which this client does not commit
	}
	require.Eventually(t, func() bool {
		lags, err := b.kafka.Admin().Lag(t.Context(), "billing")
		require.NoError(t, err)
		lag := lags["billing"].Lag.Total()
		return lag <= rest && g.handled() == 400
	}, time.Minute, 20*time.Millisecond)
	added, err := b.kafka.Admin().UpdatePartitions(t.Context(), 5, "orders.events")
	require.NoError(t, err)
	require.NoError(t, added["orders.events"].Err)
	require.Equal(t, 0, invoke(t, b.env, "resume").code)
	b.db.Exec(t, insertSteps)
	require.Eventually(t, func() bool { return g.handled() == 1200 }, time.Minute, 20*time.Millisecond)
	require.Empty(t, g.wrong)
	require.Greater(t, len(g.used), 2, "keys go to the new partitions from the first event on")

	var st service.Status
	_, body := r.get("/status")
	require.NoError(t, json.Unmarshal([]byte(body), &st))
	require.Len(t, st.Grown, 1)
	require.Equal(t, []int{1, 5}, []int{st.Grown[0].Before, st.Grown[0].Now})
	r.awaitAnswer("/status", `"alert": "partitions_added"`)
}
