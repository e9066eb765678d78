package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

const (
	streamOfTests = "OUTBOX"
	patience      = time.Minute
)

var owner = sink.SlotOwner("7391", "shop")

// streamConfig is a stream for topics of the form outbox.x.
func streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: streamOfTests, Subjects: []string{"outbox.*"}}
}

// relay is a source of events 1, 2, 3, … over a producer. Event n has the position (n, 0).
type relay struct {
	*Producer
	tb   testing.TB
	logs *observer.ObservedLogs
	stop context.CancelFunc
	done *errgroup.Group

	mu    sync.Mutex
	acked []uint64
	bytes int64
	ended error
}

func open(tb testing.TB, cluster Cluster) *relay {
	tb.Helper()
	r := &relay{tb: tb}
	core, logs := observer.New(zapcore.DebugLevel)
	r.logs = logs
	if cluster.Stream == "" {
		cluster.Stream = streamOfTests
	}
	p, err := Open(Config{Cluster: cluster, Logger: zap.New(core)})(sink.Callbacks{
		Acked: func(d sink.Delivery) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.acked = append(r.acked, d.Tickets...)
			r.bytes += d.Bytes
		},
		Ended: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended = err
		},
	})
	require.NoError(tb, err)
	r.Producer = p.(*Producer)
	ctx, stop := context.WithCancel(tb.Context())
	r.stop, r.done = stop, &errgroup.Group{}
	r.done.Go(func() error { return r.Run(ctx) })
	tb.Cleanup(r.close)
	return r
}

func (r *relay) close() {
	r.stop()
	require.NoError(r.tb, r.done.Wait())
}

func within(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// begin returns the number of the event that is stored last.
func (r *relay) begin() uint64 {
	r.tb.Helper()
	stored, found, err := r.Begin(within(r.tb), owner)
	require.NoError(r.tb, err)
	require.Equal(r.tb, found, stored.Commit > 0)
	return uint64(stored.Commit)
}

// loginOfU is by the user u.
func loginOfU(password string) Login {
	text := func(s string) func() (string, error) { return func() (string, error) { return s, nil } }
	return Login{User: text("u"), Password: text(password), Token: text("")}
}

func event(n uint64) *router.Record {
	id := strconv.FormatUint(n, 10)
	return &router.Record{
		Topic: fmt.Sprintf("outbox.t%d", n%3), Partition: -1, Key: []byte("k" + strconv.FormatUint(n%7, 10)),
		Value: []byte("event " + id), Timestamp: 1_900_000_000_123,
		Headers: []router.Header{{Key: "id", Value: []byte("e-" + id)}, {Key: "type", Value: []byte("Placed")}},
	}
}

func at(n uint64) sink.Position {
	return sink.Position{
		Timeline: 1, Position: lsn.Position{Commit: lsn.LSN(n)}, XID: uint32(n), Time: time.UnixMicro(int64(n)),
	}
}

func (r *relay) produce(n uint64) error { return r.ProduceAt(r.tb.Context(), event(n), n, at(n)) }

func (r *relay) produceAll(from, to uint64) {
	r.tb.Helper()
	for n := from; n <= to; n++ {
		require.NoError(r.tb, r.produce(n))
	}
}

func (r *relay) drain() { r.tb.Helper(); require.NoError(r.tb, r.Drain(within(r.tb))) }

// publish brings events from..to into the stream whatever happens to the session, reading again from where Begin says.
func (r *relay) publish(to uint64) {
	r.tb.Helper()
	for {
		r.Abandon()
		err := error(nil)
		for n := r.begin() + 1; n <= to && err == nil; n++ {
			err = r.produce(n)
		}
		if err == nil {
			err = r.Drain(within(r.tb))
		}
		if err == nil {
			return
		}
		require.True(r.tb, errors.Is(err, sink.ErrFenced) || errors.Is(err, sink.ErrSessionOver), err)
	}
}

// over is why the session has ended, nil if it has not.
func (r *relay) over() error {
	r.Producer.mu.Lock()
	defer r.Producer.mu.Unlock()
	return r.Producer.over
}

func (r *relay) tickets() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]uint64{}, r.acked...)
}

// waits waits for a trouble of this kind, and returns it.
func (r *relay) waits(kind sink.TroubleKind) (t sink.Trouble) {
	r.tb.Helper()
	require.Eventually(r.tb, func() bool {
		for _, t = range r.Trouble() {
			if t.Kind == kind {
				return true
			}
		}
		return false
	}, patience, 5*time.Millisecond, "%v", kind)
	return t
}

// requireExactly requires the events 1 to n in their order, each once.
func requireExactly(tb testing.TB, stream jetstream.Stream, n uint64) {
	tb.Helper()
	var have []string
	for _, m := range natsserver.Messages(tb, stream) {
		if m.Headers().Get(headerRelay) != "" {
			have = append(have, string(m.Data()))
		}
	}
	want := make([]string, n)
	for i := range want {
		want[i] = string(event(uint64(i + 1)).Value)
	}
	require.Equal(tb, want, have)
}

// size is a number of events: a tenth of it where seconds count.
func size(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

func count(n uint64) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	return all
}
