package router

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reason without a group would have no policy of its own, whatever the configuration says about its like.
func TestEveryReasonHasAGroup(t *testing.T) {
	used := map[Group]bool{}
	for _, r := range Reasons() {
		require.Contains(t, Groups(), r.Group(), "%s", r)
		used[r.Group()] = true
	}
	require.Len(t, used, len(Groups()), "each group has a reason")
	for r := range groups {
		require.True(t, slices.Contains(Reasons(), r), "%s is no reason any more", r)
	}
}
