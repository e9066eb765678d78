package kafka

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

var (
	chaosSeed = flag.Uint64("chaos.seed", 0, "replay this seed")
	chaosRuns = flag.Int("chaos.runs", 2, "number of seeds")
)

// TestChaos throws random faults at random moments. Without faults that take the broker's producer state away, the log
// must equal the input; with them, records may repeat, but only as a contiguous rewind.
func TestChaos(t *testing.T) {
	t.Parallel()
	for _, stateful := range []bool{true, false} {
		for range *chaosRuns {
			seed := *chaosSeed
			if seed == 0 {
				seed = rand.Uint64()
			}
			t.Run(fmt.Sprintf("keeps state %t, seed %d", stateful, seed),
				func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						chaos(t, seed, stateful)
					})
				})
		}
	}
}

// chaos is one run.
//
//waits:bubble
func chaos(t *testing.T, seed uint64, stateful bool) {
	r := rand.New(rand.NewPCG(seed, 0))
	codes := []int16{3, 5, 6, 7, 19, 20, 56, 74, 89, 2, -1, 29}
	if !stateful {
		codes = append(codes, 45, 59, 47, 10, 87) // the last two after a lost answer, see batchsplit.go
	}
	const topics, partitions, brokers = 2, 3, 3
	c := newCluster(t, kfake.NumBrokers(brokers), kfake.SeedTopics(partitions, "t0", "t1"))
	d := newFaultDial()
	g := newRig(t, c, func(cfg *Config) {
		cfg.MaxBatchBytes = 200 + r.IntN(1500)
		cfg.MaxRequestBytes = 200 + r.IntN(4000)
		cfg.RequestTimeout = 250 * time.Millisecond
		cfg.MetadataInterval = time.Duration(20+r.IntN(2000)) * time.Millisecond
		cfg.Dial = d.dial
		if r.IntN(2) == 0 {
			cfg.stageFrom = math.MaxInt64
		}
		if r.IntN(2) == 0 {
			cfg.Compression = []string{"gzip", "lz4", "snappy"}[r.IntN(3)]
		}
	})
	g.policy = waits
	for i := range fewer(3000) {
		if r.IntN(25) == 0 {
			switch r.IntN(4) {
			case 0, 1:
				code := codes[r.IntN(len(codes))]
				f := kfake.Fault{
					Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code, Message: wire.VerdictOf(code).Name},
					Count: 1 + r.IntN(4),
				}
				if r.IntN(3) > 0 {
					f.Topic, f.Partitions = fmt.Sprint("t", r.IntN(topics)), []int32{int32(r.IntN(partitions))}
				}
				c.Fault(f)
			case 2:
				require.NoError(t, c.MoveTopicPartition(fmt.Sprint("t", r.IntN(topics)), int32(r.IntN(partitions)),
					int32(r.IntN(brokers))))
			case 3:
				d.arm(strike(r.IntN(3)), 1+r.IntN(5), 0)
			}
		}
		g.produce(fmt.Sprint("t", r.IntN(topics)), fmt.Sprint("k", r.IntN(10)))
		if r.IntN(20) == 0 {
			g.Flush()
		}
		if i%200 == 0 {
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		}
	}
	g.checkRewinds()
	if stateful {
		g.check()
		require.Zero(t, testutil.ToFloat64(g.metrics.epochBumps))
	}
	require.Positive(t, testutil.ToFloat64(g.metrics.rewinds))
}

// checkRewinds is check for logs that may repeat records: first appearances are the input, and the log only ever goes
// on or goes back, so that a consumer that skips known ids sees the right order.
func (r *rig) checkRewinds() {
	r.t.Helper()
	r.drain()
	r.checkAcks()
	for topic, values := range r.sent {
		want := byKey(values)
		for key, got := range byKey(r.read(topic)) {
			at := -1
			var seen []string
			for _, v := range got {
				i, ok := slices.BinarySearch(want[key], v)
				require.True(r.t, ok, "%s was never produced", v)
				require.LessOrEqual(r.t, i, at+1, "%s skips forward", v)
				if i == len(seen) {
					seen = append(seen, v)
				}
				at = i
			}
			require.Equal(r.t, want[key], seen, "topic %s key %s", topic, key)
		}
	}
}
