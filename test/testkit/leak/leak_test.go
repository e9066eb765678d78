package leak_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// TestFind: a goroutine that ends a second later is none that was left behind, and one that does not end is.
func TestFind(t *testing.T) {
	soon, never := make(chan struct{}), make(chan struct{})
	time.AfterFunc(time.Second, func() { close(soon) })
	go func() { <-soon }()
	require.NoError(t, leak.Find())
	go func() { <-never }()
	require.ErrorContains(t, leak.Find(), "TestFind")
	close(never)
}
