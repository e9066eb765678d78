package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

// natsConsumer is the loop of docs/nats.md. Its ack may be left out, as by a process that is killed before it.
type natsConsumer struct {
	in      *inbox.Inbox
	letters string // subject of a stream of its own
	js      jetstream.JetStream
	handle  func(ctx context.Context, tx pgx.Tx, m jetstream.Msg) error
	killed  func() bool
}

const mostDeliveries = 5

func (c *natsConsumer) next(ctx context.Context, messages jetstream.MessagesContext) error {
	m, err := messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		return err
	}
	place, err := m.Metadata()
	if err != nil {
		return err
	}
	err = c.in.Handle(ctx, inbox.Event{ID: m.Headers().Get("id"), Source: m.Subject()},
		func(ctx context.Context, tx pgx.Tx) error { return c.handle(ctx, tx, m) })
	switch {
	case c.killed():
		return nil
	case err == nil, errors.Is(err, inbox.ErrDuplicate):
		return m.DoubleAck(ctx) // after the commit
	case place.NumDelivered < mostDeliveries:
		return m.Nak() // delivered again, before the next one
	}
	if _, err := c.js.Publish(ctx, c.letters, m.Data(), jetstream.WithMsgID(m.Headers().Get("id"))); err != nil {
		return err
	}
	return m.TermWithReason(err.Error())
}

// A consumer of JetStream with the inbox: killed between commit and acknowledgement, failing for a while, and with an
// event that it cannot handle. Each event has one effect, in order, and the poisoned one is dead-lettered.
func TestNATSConsumerHandlesEachEventOnce(t *testing.T) {
	b := newBed(t)
	s := natsserver.Start(t, nil)
	stream, js := natsserver.Stream(t, s.URL(), jetstream.StreamConfig{Name: "OUTBOX", Subjects: []string{"outbox.>"}})
	letters, _ := natsserver.Stream(t, s.URL(), jetstream.StreamConfig{Name: "LETTERS", Subjects: []string{"letters"}})
	const events, poisoned = 60, 17
	for n := 1; n <= events; n++ {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{
			Subject: "outbox.order", Header: nats.Header{"id": {fmt.Sprintf("e-%d", n)}},
			Data: []byte(strconv.Itoa(n)),
		})
		require.NoError(t, err)
	}
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1, AckWait: 100 * time.Millisecond,
	})
	require.NoError(t, err)

	deliveries, failed := 0, map[string]bool{}
	c := natsConsumer{
		in: in, js: js, letters: "letters",
		killed: func() bool { deliveries++; return deliveries%4 == 0 },
		handle: func(ctx context.Context, tx pgx.Tx, m jetstream.Msg) error {
			n := string(m.Data())
			if n == strconv.Itoa(poisoned) {
				return errors.New("cannot be handled")
			}
			if !failed[n] && len(failed) < 10 {
				failed[n] = true
				return errors.New("fails the first time")
			}
			return effect(n, "billing")(ctx, tx)
		},
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1))
	require.NoError(t, err)
	defer messages.Stop()
	for done := false; !done; {
		if err := c.next(t.Context(), messages); !errors.Is(err, jetstream.ErrNoHeartbeat) { // it asks again
			require.NoError(t, err)
		}
		info, err := consumer.Info(t.Context())
		require.NoError(t, err)
		done = info.AckFloor.Stream == events
	}

	rows, err := b.pool.Query(t.Context(), "SELECT event FROM effects ORDER BY ctid")
	require.NoError(t, err)
	have, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	var want []string
	for n := 1; n <= events; n++ {
		if n != poisoned {
			want = append(want, strconv.Itoa(n))
		}
	}
	require.Equal(t, want, have)
	set := natsserver.Messages(t, letters)
	require.Len(t, set, 1)
	require.Equal(t, strconv.Itoa(poisoned), string(set[0].Data()))
	require.Greater(t, deliveries, events*5/4)
}
