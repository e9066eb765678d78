//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
)

// Crashes of the connector under load: nothing is lost, nothing made up, and what is repeated is repeated in order.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, surroundings{})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for range soak(20, 10) {
		r.pause(50*time.Millisecond, 900*time.Millisecond)
		p.Kill()
		p = r.launch()
	}
	r.Logf("written: %+v", writers.Stop())
	r.verdict()
}

// SIGTERM under load ends with exit code 0 and everything acknowledged confirmed: the next start repeats nothing.
func TestSIGTERMUnderLoadRepeatsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, surroundings{})
	p := r.start() // before the first row: what was committed before the slot was created is not promised
	writers := r.oracle.StartWriters(oracle.Load{Pause: time.Millisecond})
	for range soak(4, 3) {
		r.pause(500*time.Millisecond, 1500*time.Millisecond)
		began := time.Now()
		code, err := p.Stop(soak(10*time.Second, patience))
		require.NoError(t, err)
		require.Zero(t, code, p.LogTail(10))
		t.Logf("stopped in %v", time.Since(began))
		p = r.start()
	}
	r.Logf("written: %+v", writers.Stop())
	require.Zero(t, r.verdict().Duplicates)
}
