package router

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReasonsAreComplete: a reason that is not listed has no counter until its first failure, which no alert sees.
func TestReasonsAreComplete(t *testing.T) {
	rowSource, err := os.ReadFile("rowerror.go")
	require.NoError(t, err)
	var want []Reason
	for _, m := range regexp.MustCompile(`(?m)^\s+\w+\s+Reason = "(\w+)"`).FindAllSubmatch(rowSource, -1) {
		want = append(want, Reason(m[1]))
	}
	require.ElementsMatch(t, want, Reasons())
	require.NotEmpty(t, want)
}
