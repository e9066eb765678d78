package leak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { VerifyTestMain(m) }

// TestFind: a goroutine that ends a little later than goleak waits is none that was left behind, and one that does not
// end is.
func TestFind(t *testing.T) {
	soon, never := make(chan struct{}), make(chan struct{})
	time.AfterFunc(700*time.Millisecond, func() { close(soon) })
	go func() { <-soon }()
	require.NoError(t, Find())
	go func() { <-never }()
	require.ErrorContains(t, find(0), "TestFind")
	close(never)
}
