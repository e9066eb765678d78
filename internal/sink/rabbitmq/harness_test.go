package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/rabbitserver"
)

const patience = time.Minute

var owner = sink.SlotOwner("7391", "shop")

// The server of this package's tests. One that is killed is not shared.
var server struct {
	sync.Mutex
	*rabbitserver.Server
}

func shared(tb testing.TB) *rabbitserver.Server {
	tb.Helper()
	server.Lock()
	defer server.Unlock()
	if server.Server == nil {
		server.Server = rabbitserver.Start(tb)
	}
	return server.Server
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.Server != nil {
		if err := server.Close(); err != nil {
			panic(err)
		}
	}
	if code != 0 {
		panic("failed")
	}
}

func cluster(s *rabbitserver.Server, name string) Cluster {
	guest := func() (string, error) { return "guest", nil }
	return Cluster{
		Addresses: []string{s.Addr()}, VHost: "/", Name: "test", Exchange: name, RoutingKey: placeKey, Type: "topic",
		DeadLetterTopic: "letters", DeadLetterExchange: name + ".letters", ContentType: "application/json",
		Heartbeat: 10 * time.Second, Lock: true, User: guest, Password: guest,
		TLS: func() (*tls.Config, error) { return nil, nil },
	}
}

// relay is a source of events 1, 2, 3, … over a producer.
type relay struct {
	*Producer
	tb   testing.TB
	stop context.CancelFunc
	done *errgroup.Group

	mu    sync.Mutex
	acked map[uint64]int
	ended error
}

func open(tb testing.TB, c Cluster) *relay {
	tb.Helper()
	r := &relay{tb: tb, acked: map[uint64]int{}}
	p, err := Open(Config{Cluster: c, Logger: zap.NewNop()})(sink.Callbacks{
		Acked: func(d sink.Delivery) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, ticket := range d.Tickets {
				r.acked[ticket]++
			}
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

func (r *relay) begin() {
	r.tb.Helper()
	_, found, err := r.Begin(within(r.tb), owner)
	require.NoError(r.tb, err)
	require.False(r.tb, found)
}

const keys = 50

func event(n uint64) *router.Record {
	id := strconv.FormatUint(n, 10)
	return &router.Record{
		Topic: "outbox.order", Partition: -1, Key: []byte("k" + strconv.FormatUint(n%keys, 10)),
		Value: []byte(id), Timestamp: 1_900_000_000_123,
		Headers: []router.Header{{Key: "id", Value: []byte("e-" + id)}, {Key: "type", Value: []byte("Placed")}},
	}
}

func (r *relay) produceAll(from, to uint64) {
	r.tb.Helper()
	for n := from; n <= to; n++ {
		require.NoError(r.tb, r.ProduceAt(within(r.tb), event(n), n, sink.Position{}))
	}
}

func (r *relay) drain() { r.tb.Helper(); require.NoError(r.tb, r.Drain(within(r.tb))) }

func (r *relay) requireAcked(to uint64) {
	r.tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r.tb, r.acked, int(to))
	for n, times := range r.acked {
		require.Equal(r.tb, 1, times, n)
	}
}

// waits waits for a trouble whose sentence has the text.
func (r *relay) waits(text string) (t sink.Trouble) {
	r.tb.Helper()
	require.Eventually(r.tb, func() bool {
		for _, t = range r.Trouble() {
			if strings.Contains(t.Sentence, text) {
				return true
			}
		}
		return false
	}, patience, 5*time.Millisecond, text)
	return t
}

// bound declares an exchange and quorum queues that are bound to it.
func bound(tb testing.TB, s *rabbitserver.Server, name, kind string, queues int) *amqp.Channel {
	tb.Helper()
	ch := s.Channel(tb)
	require.NoError(tb, ch.ExchangeDeclare(name, kind, true, false, false, false, nil))
	for i := range queues {
		queue, key := fmt.Sprintf("%s.%d", name, i), "#"
		if kind != "topic" {
			key = "1"
		}
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		require.NoError(tb, err)
		require.NoError(tb, ch.QueueBind(queue, key, name, false, nil))
	}
	return ch
}

// requireOrder requires that no queue has an event of a key before an earlier one, that repeats are rewinds, that the
// last event of a key is its newest, and that nothing is missing. It returns the repeats.
func requireOrder(tb testing.TB, s *rabbitserver.Server, name string, queues int, to uint64) (repeats int) {
	tb.Helper()
	seen, newest := map[uint64]bool{}, map[string]uint64{}
	for i := range queues {
		for _, m := range s.Messages(tb, fmt.Sprintf("%s.%d", name, i)) {
			n, err := strconv.ParseUint(string(m.Body), 10, 64)
			require.NoError(tb, err)
			if seen[n] {
				repeats++
			}
			key := m.Headers[headerKey].(string)
			if n > keys {
				require.True(tb, seen[n-keys], "event %d of key %s without its predecessor", n, key)
			}
			seen[n], newest[key] = true, n
		}
	}
	require.Len(tb, seen, int(to))
	for key, last := range newest {
		require.Greater(tb, last+keys, to, "the last message of key %s is event %d", key, last)
	}
	return repeats
}

// publish brings events into the queues whatever happens to the session.
func (r *relay) publish(to uint64) {
	r.tb.Helper()
	for {
		r.Abandon()
		r.begin()
		err := error(nil)
		for n := r.next(to); n <= to && err == nil; n++ {
			if r.isAcked(n) {
				continue
			}
			err = r.ProduceAt(within(r.tb), event(n), n, sink.Position{})
		}
		if err == nil {
			err = r.Drain(within(r.tb))
		}
		if err == nil {
			return
		}
		require.True(r.tb, errors.Is(err, sink.ErrSessionOver), err)
	}
}

func (r *relay) isAcked(n uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked[n] > 0
}

// next is the first event that is not acknowledged. As the slot's position, it does not pass one.
func (r *relay) next(to uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := uint64(1)
	for n <= to && r.acked[n] > 0 {
		n++
	}
	return n
}
