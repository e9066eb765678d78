package build

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRevision: a build without a repository names the revision that the linker was given, and no placeholder.
func TestRevision(t *testing.T) {
	require.Empty(t, Of("v1").Revision, "a test binary has none")
	t.Cleanup(func() { revision = "" })
	for given, want := range map[string]string{"0123abc": "0123abc", "unknown": ""} {
		revision = given
		require.Equal(t, want, Of("v1").Revision)
	}
	revision = "0123abc"
	require.Contains(t, Of("v1").String(), "v1 (0123abc) go")
}
