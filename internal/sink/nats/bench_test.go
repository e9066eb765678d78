package nats

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/natsserver"
)

var payloadOfBenchmarks = bytes.Repeat([]byte("x"), 300)

// BenchmarkProduce is the producer, with conditions and positions; beside it, BenchmarkBareLoop is the library's own
// asynchronous publication with the same headers of the row, which keeps neither order nor position.
func BenchmarkProduce(b *testing.B) {
	s := natsserver.Start(b, nil)
	natsserver.Stream(b, s.URL(), streamConfig())
	acked, progress := atomic.Int64{}, make(chan struct{}, 1)
	p, err := Open(Config{Cluster: Cluster{Servers: []string{s.URL()}, Stream: streamOfTests}, Logger: zap.NewNop()})(
		sink.Callbacks{Acked: func(d sink.Delivery) {
			acked.Add(int64(len(d.Tickets)))
			select {
			case progress <- struct{}{}:
			default:
			}
		}})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	defer func() { stop(); require.NoError(b, <-done) }()
	_, _, err = p.Begin(ctx, owner)
	require.NoError(b, err)
	rec := event(1)
	rec.Value = payloadOfBenchmarks
	room := int64(20_000) // the connector's window
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		for n-acked.Load() > room {
			<-progress
		}
		rec.Headers[0].Value = []byte(client.NewInbox())
		require.NoError(b, p.ProduceAt(ctx, rec, uint64(n), at(uint64(n)+1)))
	}
	require.NoError(b, p.Drain(ctx))
}

func BenchmarkBareLoop(b *testing.B) {
	s := natsserver.Start(b, nil)
	_, js := natsserver.Stream(b, s.URL(), streamConfig())
	b.ReportAllocs()
	for b.Loop() {
		id := client.NewInbox()
		_, err := js.PublishMsgAsync(&client.Msg{
			Subject: "outbox.t1", Data: payloadOfBenchmarks, Header: client.Header{
				"Nats-Msg-Id": {id}, "id": {id}, "type": {"Placed"}, headerKey: {"k1"},
				headerTime: {"2026-11-28T12:00:00.000Z"},
			},
		})
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
}
