package verify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPairTopics(t *testing.T) {
	names := []string{
		"outbox.event.order", "outbox.event.verify.order", "verify.outbox.event.order", "verify.outbox.event.x",
		"other",
	}
	require.Equal(t, [][2]string{
		{"outbox.event.order", "verify.outbox.event.order"},
		{
			"outbox.event.verify.order", "verify.outbox.event.verify.order",
		},
		{"outbox.event.x", "verify.outbox.event.x"},
	}, pairTopics(names, "outbox.event.", "verify.outbox.event."))
	require.Equal(
		t, [][2]string{{"outbox.event.order", "outbox.event.verify.order"}},
		pairTopics(names[:2], "outbox.event.", "outbox.event.verify."),
	)
}
