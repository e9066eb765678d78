package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllocated: the measure sees what it is there for.
func TestAllocated(t *testing.T) {
	var sink []byte
	require.GreaterOrEqual(t, Allocated(func() { sink = make([]byte, 1<<20) }), uint64(1<<20))
	require.Less(t, Allocated(func() { sink = sink[:1] }), uint64(64<<10))
}
