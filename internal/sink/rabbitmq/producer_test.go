package rabbitmq

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/rabbitserver"
)

// A message has the event's parts where consumers of RabbitMQ look for them.
func TestMessage(t *testing.T) {
	s := shared(t)
	bound(t, s, t.Name(), "topic", 1)
	r := open(t, cluster(s, t.Name()))
	r.begin()
	rec := event(1)
	rec.Headers = append(rec.Headers, router.Header{Key: "raw", Value: []byte{0xff}})
	require.NoError(t, r.ProduceAt(t.Context(), rec, 1, sink.Position{}))
	rec = event(2)
	rec.Value, rec.Key = nil, nil
	require.NoError(t, r.ProduceAt(t.Context(), rec, 2, sink.Position{}))
	r.drain()
	r.requireAcked(2)
	got := s.Messages(t, t.Name()+".0")
	require.Len(t, got, 2)
	if got[0].MessageId != "e-1" { // they have no key in common
		got[0], got[1] = got[1], got[0]
	}
	m := got[0]
	require.Equal(t, []any{"e-1", "Placed", "application/json", "cdc-outbox", amqp.Persistent, "k1", "1"},
		[]any{m.MessageId, m.Type, m.ContentType, m.AppId, m.DeliveryMode, m.RoutingKey, string(m.Body)})
	require.EqualValues(t, 1_900_000_000, m.Timestamp.Unix())
	require.Equal(t, amqp.Table{
		"id": "e-1", "type": "Placed", "raw": []byte{0xff}, headerKey: "k1", headerTime: int64(1_900_000_000_123),
	}, m.Headers)
	require.Equal(t, true, got[1].Headers[headerTombstone])
	require.Empty(t, got[1].RoutingKey)
}

// Connections are cut under load: nothing is lost, and keys keep their order in the quorum queues of a consistent-hash
// exchange.
func TestOrderAndLoss(t *testing.T) {
	s := shared(t)
	const queues = 3
	bound(t, s, t.Name(), "x-consistent-hash", queues)
	px, err := proxy.Start(s.Addr(), proxy.Raw)
	require.NoError(t, err)
	defer px.Close()
	c := cluster(s, t.Name())
	c.Addresses, c.Type = []string{px.Addr()}, "x-consistent-hash"
	r := open(t, c)
	const n = 6000
	published := make(chan struct{})
	go func() { defer close(published); r.publish(n) }()
	for round := range 10 {
		require.Eventually(t, func() bool { return r.count() > n*(round+1)/12 }, patience, time.Millisecond)
		px.Reset()
	}
	<-published
	repeats := requireOrder(t, s, t.Name(), queues, n)
	t.Logf("%d repeats", repeats)
}

// Nothing is sent to an exchange that does not exist, and the rest goes on. Messages that no queue takes are not
// acknowledged, although the server confirms them.
func TestMissingAndUnroutable(t *testing.T) {
	s := shared(t)
	r := open(t, cluster(s, t.Name()))
	r.begin()
	r.produceAll(1, 100)
	require.Equal(t, sink.TopicMissing, r.waits("it does not exist").Kind)
	ch := bound(t, s, t.Name(), "topic", 0)
	trouble := r.waits("no queue takes a message")
	require.Contains(t, trouble.Remedy, "Bind a queue")
	r.mu.Lock()
	require.Empty(t, r.acked)
	r.mu.Unlock()
	bound(t, s, t.Name(), "topic", 1)
	r.drain()
	r.requireAcked(100)
	require.Zero(t, requireOrder(t, s, t.Name(), 1, 100))
	require.Eventually(t, func() bool { return len(r.Trouble()) == 0 }, patience, 5*time.Millisecond)

	require.NoError(t, ch.ExchangeDelete(t.Name(), false, false)) // with messages in flight
	r.produceAll(101, 200)
	r.waits("it does not exist")
	require.NoError(t, ch.ExchangeDeclare(t.Name(), "topic", true, false, false, false, nil))
	require.NoError(t, ch.QueueBind(t.Name()+".0", "#", t.Name(), false, nil))
	r.drain()
	r.requireAcked(200)
}

// A queue that is full refuses messages (basic.nack): keys keep their order, and all are taken once there is room.
func TestRefused(t *testing.T) {
	s := shared(t)
	ch := bound(t, s, t.Name(), "topic", 0)
	_, err := ch.QueueDeclare(t.Name()+".0", true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-max-length": 100,
	})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(t.Name()+".0", "#", t.Name(), false, nil))
	r := open(t, cluster(s, t.Name()))
	r.begin()
	const n = 1000
	r.produceAll(1, n)
	r.waits("basic.nack")
	seen := map[string]bool{}
	require.Eventually(t, func() bool {
		for _, m := range s.Messages(t, t.Name()+".0") {
			number := string(m.Body)
			seen[number] = true
		}
		return len(seen) == n
	}, patience, time.Millisecond)
	r.drain()
	r.requireAcked(n)
}

// A record that the server never takes is refused before it is taken, and the largest size is learned once.
func TestRefusals(t *testing.T) {
	s := shared(t)
	bound(t, s, t.Name(), "topic", 1)
	c := cluster(s, t.Name())
	r := open(t, c)
	r.begin()
	refused := func(change func(*router.Record)) *sink.RefusedError {
		t.Helper()
		rec := event(1)
		change(rec)
		var e *sink.RefusedError
		require.ErrorAs(t, r.ProduceAt(t.Context(), rec, 1, sink.Position{}), &e)
		return e
	}
	header := func(name, value string) func(*router.Record) {
		return func(rec *router.Record) {
			rec.Headers = append(rec.Headers, router.Header{Key: name, Value: []byte(value)})
		}
	}
	for _, key := range [][]byte{bytes.Repeat([]byte("k"), 256), {0xff}} {
		require.Equal(t, sink.InvalidRecord, refused(func(rec *router.Record) { rec.Key = key }).Reason)
	}
	require.Contains(t, refused(header("CC", "x")).Error(), "instruction to the server")
	require.Contains(t, refused(header(headerKey, "x")).Error(), "the connector's own")
	require.Contains(t, refused(header(strings.Repeat("h", 256), "x")).Error(), "256 bytes")
	require.Contains(t, refused(header("long", strings.Repeat("h", 200_000))).Error(), "frame_max")

	rec := event(1)
	rec.Value = make([]byte, 5<<20) // the server takes 4 MB
	require.NoError(t, r.ProduceAt(t.Context(), rec, 1, sink.Position{}))
	require.ErrorIs(t, r.Drain(within(t)), sink.ErrSessionOver)
	require.Equal(t, 1, r.Abandon().Records)
	r.begin()
	e := refused(func(rec *router.Record) { rec.Value = make([]byte, 5<<20) })
	require.Equal(t, []any{sink.TooLarge, 4 << 20}, []any{e.Reason, e.Limit})
	r.produceAll(1, 1)
	r.drain()

	wrong := cluster(s, "")
	wrong.Exchange = strings.Repeat("x", 256)
	_, err := wrong.newMessage(event(1), limits{})
	require.ErrorContains(t, err, "256 bytes")
}

// A memory alarm is a wait with its reason. Nothing is lost, and the connection is kept.
func TestAlarm(t *testing.T) {
	s := shared(t)
	bound(t, s, t.Name(), "topic", 1)
	r := open(t, cluster(s, t.Name()))
	r.begin()
	r.produceAll(1, 10)
	r.drain()
	s.Control(t, "set_vm_memory_high_watermark", "0.0000001")
	r.produceAll(11, 20)
	require.Contains(t, r.waits("because of an alarm").Sentence, "memory")
	r.produceAll(21, 500)
	s.Control(t, "set_vm_memory_high_watermark", "0.4")
	r.drain()
	r.requireAcked(500)
	require.Zero(t, requireOrder(t, s, t.Name(), 1, 500))
	require.Empty(t, r.Trouble())
}

// Only one of two instances has the queue of the slot. The other one waits, says so, and follows.
func TestTwoInstances(t *testing.T) {
	s := shared(t)
	bound(t, s, t.Name(), "topic", 1)
	one, two := open(t, cluster(s, t.Name())), open(t, cluster(s, t.Name()))
	one.begin()
	require.NoError(t, one.Keep(within(t)))
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error)
	go func() { _, _, err := two.Begin(ctx, owner); begun <- err }()
	two.waits("another connection of this slot has it")
	cancel()
	require.ErrorIs(t, <-begun, context.Canceled)
	two.Abandon()
	one.produceAll(1, 10)
	one.drain()
	one.Abandon()
	two.begin()
	two.produceAll(11, 20)
	two.drain()
	require.Zero(t, requireOrder(t, s, t.Name(), 1, 20))
	require.Error(t, one.ProduceAt(t.Context(), event(1), 1, sink.Position{}))
}

// What is given up is not acknowledged any more, and the next session starts at once.
func TestAbandonAndKeep(t *testing.T) {
	s := shared(t)
	bound(t, s, t.Name(), "topic", 1)
	px, err := proxy.Start(s.Addr(), proxy.Raw)
	require.NoError(t, err)
	defer px.Close()
	c := cluster(s, t.Name())
	c.Addresses = []string{px.Addr()}
	r := open(t, c)
	for round := range uint64(5) {
		r.begin()
		before := r.count()
		r.produceAll(round*100+1, round*100+100)
		dropped := r.Abandon()
		require.NoError(t, r.Drain(within(t)))
		require.Equal(t, 100, r.count()-before+dropped.Records)
	}
	r.begin()
	px.Reset()
	require.Eventually(t, func() bool { return r.Keep(within(t)) != nil }, patience, time.Millisecond)
	require.ErrorIs(t, r.Keep(within(t)), sink.ErrSessionOver)
	r.Abandon()
	r.begin()
	require.NoError(t, r.Keep(within(t)))
	r.stop()
	require.Eventually(t, func() bool { return r.Keep(within(t)) != nil }, patience, time.Millisecond)
	require.NoError(t, r.Drain(within(t)))
}

// The server is killed under load and starts again.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	s := rabbitserver.Start(t)
	defer func() { require.NoError(t, s.Close()) }()
	bound(t, s, t.Name(), "x-consistent-hash", 1)
	c := cluster(s, t.Name())
	c.Type = "x-consistent-hash"
	r := open(t, c)
	const n = 4000
	published := make(chan struct{})
	go func() { defer close(published); r.publish(n) }()
	require.Eventually(t, func() bool { return r.count() > n/4 }, patience, time.Millisecond)
	s.Kill()
	r.waits("no connection to RabbitMQ")
	s.Up(t)
	<-published
	t.Logf("%d repeats", requireOrder(t, s, t.Name(), 1, n))
}

// A login that is refused names the setting.
func TestLogin(t *testing.T) {
	s := shared(t)
	c := cluster(s, t.Name())
	c.Password = func() (string, error) { return "wrong", nil }
	r := open(t, c)
	_, _, err := r.Begin(soon(t), owner)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, r.waits("").Remedy, "rabbitmq.password")
	c = cluster(s, t.Name())
	c.VHost = "nowhere"
	r = open(t, c)
	_, _, err = r.Begin(soon(t), owner)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, r.waits("").Remedy, "rabbitmq.vhost")
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (r *relay) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acked)
}
