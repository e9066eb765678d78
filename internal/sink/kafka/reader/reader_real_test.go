//go:build e2e

package reader

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
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

	progress := kadm.Offsets{}
	progress.AddOffset("t", 0, 1, -1)
	committed, err := c.Admin().CommitOffsets(ctx, "billing", progress)
	require.NoError(t, err)
	require.NoError(t, committed.Error())
	r := newReader(t, c.Addrs())
	spans, err := r.Spans(ctx, "t")
	require.NoError(t, err)
	groups, err := r.Groups(ctx, spans)
	require.NoError(t, err)
	require.Equal(t, []sink.Group{{Name: "billing", Topic: "t", Lag: spans[0].End - 1}}, groups)
}
