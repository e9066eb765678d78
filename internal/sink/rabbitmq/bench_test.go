package rabbitmq

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

const keysOfBenchmarks = 10_000

// BenchmarkProduce is the producer. Beside it, BenchmarkBareLoop is a loop on the client alone with the same rule: of a
// key, the next message is published once its predecessor is confirmed.
func BenchmarkProduce(b *testing.B) {
	s := shared(b)
	bound(b, s, b.Name(), "topic", 1)
	acked, progress := atomic.Int64{}, make(chan struct{}, 1)
	p, err := Open(Config{Cluster: cluster(s, b.Name()), Logger: zap.NewNop()})(sink.Callbacks{
		Acked: func(d sink.Delivery) {
			acked.Add(int64(len(d.Tickets)))
			select {
			case progress <- struct{}{}:
			default:
			}
		},
	})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	defer func() { stop(); require.NoError(b, <-done) }()
	_, _, err = p.Begin(ctx, owner)
	require.NoError(b, err)
	rec := event(1)
	rec.Value = make([]byte, 300)
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		for n-acked.Load() > 20_000 {
			<-progress
		}
		rec.Key = strconv.AppendInt(rec.Key[:0], n%keysOfBenchmarks, 10)
		require.NoError(b, p.ProduceAt(ctx, rec, uint64(n), sink.Position{}))
	}
	require.NoError(b, p.Drain(ctx))
}

func BenchmarkBareLoop(b *testing.B) {
	s := shared(b)
	ch := bound(b, s, b.Name(), "topic", 1)
	require.NoError(b, ch.Confirm(false))
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 4096))
	flight := map[uint64]int64{}
	busy := make([]bool, keysOfBenchmarks)
	free := func() {
		c := <-confirms
		require.True(b, c.Ack)
		busy[flight[c.DeliveryTag]] = false
		delete(flight, c.DeliveryTag)
	}
	b.ReportAllocs()
	tag := uint64(0)
	for b.Loop() {
		key := int64(tag % keysOfBenchmarks)
		for busy[key] || len(flight) >= 4096 {
			free()
		}
		tag++
		busy[key], flight[tag] = true, key
		text := strconv.FormatInt(key, 10)
		require.NoError(b, ch.Publish(b.Name(), text, true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: "e-1", Type: "Placed", ContentType: "application/json",
			Headers: amqp.Table{"id": "e-1", "type": "Placed", headerKey: text, headerTime: int64(1)},
			Body:    make([]byte, 300),
		}))
	}
	for len(flight) > 0 {
		free()
	}
}
