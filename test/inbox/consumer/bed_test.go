package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(holdVictimVariable); spec != "" {
		os.Exit(holdVictim(spec))
	}
	if spec := os.Getenv(victimVariable); spec != "" {
		os.Exit(victim(spec))
	}
	flag.Parse()
	if testing.Short() {
		_ = flag.Set("test.parallel", "8") // the tests that need no server wait
	}
	testkit.Main(m)
}

const topic = "order.events"

// bed is a broker with the topic, its dead-letter topic, and a producer.
type bed struct {
	*fakebroker.Broker
	producer *kgo.Client
}

func newBed(t *testing.T, partitions int32) *bed {
	topics := map[string]int32{topic: partitions, topic + ".DLT": 1}
	b := &bed{Broker: testkit.FakeBroker(t, fakebroker.Options{Topics: topics})}
	var err error
	b.producer, err = kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	require.NoError(t, err)
	t.Cleanup(b.producer.Close)
	return b
}

func record(key, id string) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Key: []byte(key), Value: []byte("value of " + id),
		Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}, {Key: "type", Value: []byte("paid")}},
	}
}

func (b *bed) produce(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	require.NoError(t, b.producer.ProduceSync(t.Context(), records...).FirstErr())
}

func (b *bed) options() consumer.Options {
	return consumer.Options{
		Brokers: b.Addrs(), Group: "billing", Topics: []string{topic},
		Pause: time.Millisecond, MaxPause: 5 * time.Millisecond,
	}
}

// start runs a consumer until stop is called or the test ends.
func start(t *testing.T, opts consumer.Options, handle consumer.Handler) (stop func() error) {
	t.Helper()
	return startWith(t, opts, func(opts consumer.Options) (*consumer.Consumer, error) {
		return consumer.New(opts, handle)
	})
}

// startBatch is start with a handler of batches.
func startBatch(t *testing.T, opts consumer.Options, handle consumer.BatchHandler) (stop func() error) {
	t.Helper()
	return startWith(t, opts, func(opts consumer.Options) (*consumer.Consumer, error) {
		return consumer.NewBatch(opts, handle)
	})
}

func startWith(
	t *testing.T, opts consumer.Options, create func(consumer.Options) (*consumer.Consumer, error),
) (stop func() error) {
	t.Helper()
	if opts.Logger == nil {
		var log logBuffer
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(log.String())
			}
		})
	}
	c, err := create(opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var result error
	go func() {
		defer close(done)
		result = c.Run(ctx)
	}()
	stop = func() error {
		cancel()
		<-done
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// journal records what a handler has seen.
type journal struct {
	mu   sync.Mutex
	seen []consumer.Message
}

func (j *journal) add(m consumer.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, m)
}

func (j *journal) ids() (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.seen {
		ids = append(ids, m.ID)
	}
	return ids
}

func (j *journal) await(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(j.ids()) >= n }, 60*time.Second, 5*time.Millisecond)
}

// committed returns the sum of the group's offsets, -1 while the broker does not answer.
func (b *bed) committed(t *testing.T) (sum int64) {
	offsets, err := b.Admin().FetchOffsets(t.Context(), "billing")
	if err != nil {
		return -1
	}
	for _, o := range offsets.Offsets().Sorted() {
		sum += max(o.At, 0)
	}
	return sum
}

func (b *bed) awaitCommitted(t *testing.T, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return b.committed(t) == n },
		60*time.Second, 10*time.Millisecond, "%d records committed", n)
}

// never looks again and again for so long. Unlike require.Never it does so here, and not in a goroutine that may still
// ask while the test goes on.
func never(t *testing.T, long time.Duration, why string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { //waits:ok a pause
		require.False(t, is(), why)
	}
}

func (b *bed) letters(t *testing.T) []*kgo.Record {
	t.Helper()
	letters, err := b.Read(t.Context(), topic+".DLT")
	require.NoError(t, err)
	return letters
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

var errBad = errors.New("bad event")
