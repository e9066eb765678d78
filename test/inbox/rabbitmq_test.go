package inbox_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/rabbitserver"
)

// rabbitConsumer is the loop of docs/rabbitmq.md. It may end between commit and acknowledgement, as if killed.
type rabbitConsumer struct {
	in     *inbox.Inbox
	handle func(ctx context.Context, tx pgx.Tx, m *amqp.Delivery) error
	killed func() bool
}

// run handles deliveries until the consumer is killed.
func (c *rabbitConsumer) run(ctx context.Context, ch *amqp.Channel, queue string) error {
	if err := ch.Qos(1, 0, false); err != nil {
		return err
	}
	messages, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for m := range messages {
		id, _ := m.Headers["id"].(string)
		err := c.in.Handle(ctx, inbox.Event{ID: id, Source: m.Exchange},
			func(ctx context.Context, tx pgx.Tx) error { return c.handle(ctx, tx, &m) })
		switch {
		case c.killed():
			return ch.Close() // the message is delivered again
		case err == nil, errors.Is(err, inbox.ErrDuplicate):
			err = m.Ack(false) // after the commit
		default:
			err = m.Nack(false, true) // delivered again, before the next one
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A consumer of a quorum queue with the inbox: killed between commit and acknowledgement, failing for a while, and with
// an event that it cannot handle. Each event has one effect, in order, and the poisoned one is dead-lettered by the
// queue, with its reason.
func TestRabbitMQConsumerHandlesEachEventOnce(t *testing.T) {
	s := rabbitserver.Start(t)
	defer func() { require.NoError(t, s.Close()) }()
	b := newBed(t)
	ch := s.Channel(t)
	const queue, letters = "billing", "billing.dead"
	require.NoError(t, ch.ExchangeDeclare(letters, "fanout", true, false, false, false, nil))
	quorum := amqp.Table{"x-queue-type": "quorum"}
	_, err := ch.QueueDeclare(letters, true, false, false, false, quorum)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(letters, "", letters, false, nil))
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-single-active-consumer": true, "x-delivery-limit": 5,
		"x-dead-letter-exchange": letters,
	})
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(false))
	const events, poisoned = 60, 17
	for n := 1; n <= events; n++ {
		c, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Headers: amqp.Table{"id": "e-" + strconv.Itoa(n)},
			Body: []byte(strconv.Itoa(n)),
		})
		require.NoError(t, err)
		require.True(t, c.Wait())
	}
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)

	deliveries, finished, failed := 0, false, map[string]bool{}
	c := rabbitConsumer{
		in: in,
		killed: func() bool {
			deliveries++
			return deliveries%9 == 0 || finished
		},
		handle: func(ctx context.Context, tx pgx.Tx, m *amqp.Delivery) error {
			n := string(m.Body)
			if n == strconv.Itoa(poisoned) {
				return errors.New("cannot be handled")
			}
			if !failed[n] && len(failed) < 10 {
				failed[n] = true
				return errors.New("fails the first time")
			}
			finished = n == strconv.Itoa(events)
			return effect(n, "billing")(ctx, tx)
		},
	}
	for !finished {
		require.NoError(t, c.run(t.Context(), s.Channel(t), queue))
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
	set := s.Messages(t, letters)
	require.Len(t, set, 1)
	require.Equal(t, strconv.Itoa(poisoned), string(set[0].Body))
	death := set[0].Headers["x-death"].([]any)[0].(amqp.Table)
	require.Equal(t, "delivery_limit", death["reason"])
	require.Greater(t, deliveries, events)
}
