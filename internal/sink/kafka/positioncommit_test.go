package kafka

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// A broker that accepts connections and answers nothing delays the end of the process once, not once for each attempt:
// the connector's drain has taken 8 of the 10 seconds that a supervisor gives.
//
// Bug (producer): A stop with a broker that hangs waited for the last commit once for each attempt, after the drain.
// Cost: 12 seconds and longer, where a supervisor may kill after 10.
func TestKeeperEndsInTime(t *testing.T) {
	for range 20 { // which of two events a select takes is chance
		synctest.Test(t, func(t *testing.T) {
			k := NewKeeper(wire.Cluster{
				Brokers: []string{"kafka:9092"},
				Dial: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					t.Cleanup(func() { _ = theirs.Close() })
					return ours, nil
				},
			}, zap.NewNop())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				err = k.Run(ctx)
			}()
			k.Keep("group", sink.Stored{})
			time.Sleep(5 * time.Second)
			cancel()
			began := time.Now()
			<-done
			assert.NoError(t, err)
			assert.LessOrEqual(t, time.Since(began), keeperLast)
		})
	}
}
