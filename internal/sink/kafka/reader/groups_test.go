package reader

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

func TestUnread(t *testing.T) {
	spans := []sink.Span{{From: 5, End: 10}, {Partition: 1, End: 3}, {Partition: 2, From: 7, End: 7}}
	require.Equal(t, int64(8), unread(spans, nil), "from the beginning")
	require.Equal(t, int64(2), unread(spans, map[int32]int64{0: 8, 1: 3, 2: 7}))
	require.Equal(t, int64(5), unread(spans, map[int32]int64{0: 2, 1: 9}), "removed, and read further than the spans")
}
