package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIdentity: the first id is the cluster's for good, and another one, or one that no cluster has, is refused.
func TestIdentity(t *testing.T) {
	var i Identity
	require.ErrorContains(t, i.admit(strings.Repeat("x", 30_000), "b:1"), "with 30000 bytes, more than 255")
	require.Empty(t, i.ID())
	require.NoError(t, i.admit("", "b:1"), "a broker that names none")
	require.NoError(t, i.admit("one", "b:1"))
	require.NoError(t, i.admit("one", "b:2"))
	require.NoError(t, i.admit("", "b:3"))
	require.ErrorContains(t, i.admit("two", "b:4"),
		`the broker at b:4 is of the Kafka cluster "two", and the broker at b:1 is of "one"`)
	require.ErrorContains(t, i.admit("two", "b:1"), "the broker that answered there before")
	err := i.admit(strings.Repeat("y", 30_000), "b:5")
	require.ErrorContains(t, err, "with 30000 bytes")
	require.Less(t, len(err.Error()), 400)
	require.Equal(t, "one", i.ID())
}
