package connector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The commit time is by the server's clock. One that is minutes off made each event in flight look as old, and fired
// events_unconfirmed, or hid a delay.
//
// Bug (monitor): Commit times of the server's clock were subtracted from the relay's clock. Cost: with a server three
// minutes slow each event in flight fired events_unconfirmed; with a fast one a delay was hidden. Also:
// `TestServersClock` in `replication`.
func TestAgesAreByTheServersClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the server's clock is slow": -3 * time.Minute, "it is fast": 3 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := justCommitted(100)
				m.Begin.CommitTime = time.Now().Add(ahead)
				s := newStream(m, row("a"))
				s.ahead = ahead
				g := start(t, Config{}, false, opening{at(50), s})
				synctest.Wait()
				time.Sleep(7 * time.Second)
				require.Equal(t, 7.0, g.Status().OldestUnconfirmedSeconds)
				g.setStream(nil) // between two streams
				require.Equal(t, 7.0, g.Status().OldestUnconfirmedSeconds)
				g.stop()
				g.producer.ack()
				require.NoError(t, <-g.done)
			})
		})
	}
}
