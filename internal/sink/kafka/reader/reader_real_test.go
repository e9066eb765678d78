//go:build e2e

package reader

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestRealReadCommitted: the same interleaved transactions on a real broker, whose list of aborted ones kfake only
// imitates.
func TestRealReadCommitted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := kafka.Start(ctx, kafka.Options{Heap: "768m"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: "t", Partitions: 1}))
	checkAborting(t, c.Addrs())
}
