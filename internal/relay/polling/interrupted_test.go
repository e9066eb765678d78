package polling

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// interrupt lets an event happen while rows are with the producer, and waits until all of them are published.
func (x *relaying) interrupt(by func()) {
	x.Helper()
	x.fake.hold(true)
	at := len(x.fake.sent())
	x.fillMore(300, 30)
	x.await("some are with the producer", func() bool { return len(x.fake.sent()) > at })
	by()
	x.fake.hold(false)
	x.awaitPublished()
}

// A connection that is lost while records are in flight repeats nothing: they are this process's until they are marked.
func TestRelayLosesItsConnections(t *testing.T) {
	b := newBed(t)
	x := b.start()
	for range 5 {
		x.interrupt(func() {
			b.db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE "+
				"'cdc-outbox/polling %' AND datname = current_database()")
		})
	}
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
	require.Len(t, x.fake.sent(), 1500)
}

// A session with Kafka that is over takes nothing along: what was with the producer is read again, in order.
func TestRelayOutlivesTheSessionWithKafka(t *testing.T) {
	b := newBed(t)
	x := b.start()
	for range 3 {
		x.interrupt(func() { x.r.sessionOver(fmt.Errorf("%w: topic", sink.ErrSessionOver)) })
	}
	require.NoError(t, x.finish())
	require.Positive(t, ordered(t, x.fake.sent()), "repeats")
	records, bytes := x.r.window.InUse()
	require.Zero(t, records)
	require.Zero(t, bytes)
	require.Equal(t, 3, x.logs.FilterMessageSnippet("the session with Kafka is over").Len())
}

func TestRelayStatementTimeout(t *testing.T) {
	b := newBed(t)
	var hurried atomic.Bool
	hurried.Store(true)
	x := b.start(func(c *Config) {
		c.DSN = func() (string, error) {
			if hurried.Load() {
				return b.db.DSN + "&options=-c%20statement_timeout%3D1ms", nil
			}
			return b.db.DSN, nil
		}
	})
	b.fill(2000, 10)
	x.await("it says so", func() bool { return x.logs.FilterMessageSnippet("cannot work with Postgres").Len() > 0 })
	hurried.Store(false)
	b.db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE "+
		"'cdc-outbox/polling %' AND datname = current_database()")
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
}

// A login that is refused, and a connection string that cannot be read, pass where there was a good one before: a
// password or a file is being replaced.
//
// Bug (configuration): A refused login, or a connection string that could not be read, was final for a polling worker
// that connected again. Cost: the rotation of a password ended the process with 3.
func TestRelayOutlivesARotation(t *testing.T) {
	b := newBed(t)
	for name, broken := range map[string]string{
		"refused": strings.Replace(b.db.DSN, "postgres@", "nobody_of_this_name@", 1), "half a file": "host=h passw",
	} {
		t.Run(name, func(t *testing.T) {
			var rotating atomic.Bool
			var attempts atomic.Int64
			x := b.start(func(c *Config) {
				c.DSN = func() (string, error) {
					if rotating.Load() {
						attempts.Add(1)
						return broken, nil
					}
					return b.db.DSN, nil
				}
			})
			b.fillMore(30, 30)
			x.awaitPublished()
			rotating.Store(true)
			b.db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE "+
				"'cdc-outbox/polling %' AND datname = current_database()")
			b.fillMore(30, 30)
			x.await("it says so", func() bool {
				return x.logs.FilterMessageSnippet("cannot work with Postgres").Len() > 0 || len(x.end) > 0
			})
			x.await("it goes on trying", func() bool { return attempts.Load() >= 10 || len(x.end) > 0 })
			rotating.Store(false)
			require.Empty(t, x.end, "it ended")
			x.awaitPublished()
			require.NoError(t, x.finish())
		})
	}
}

// The start has verified the connection string, so the same holds for the first connection of each worker.
func TestRelayOutlivesARotationAtItsStart(t *testing.T) {
	b := newBed(t)
	var calls atomic.Int64
	x := b.start(func(c *Config) {
		c.DSN = func() (string, error) {
			if n := calls.Add(1); n > 2 && n <= 12 { // the start has two connections
				return "host=h passw", nil
			}
			return b.db.DSN, nil
		}
	})
	b.fillMore(30, 30)
	x.awaitPublished()
	require.NoError(t, x.finish())
}

// What was not acknowledged when the time for a stop was over is repeated by the next start, and nothing else. The test
// of a process that is killed is in cmd/cdc-outbox.
func TestRelayStoppedBeforeAcknowledgement(t *testing.T) {
	b := newBed(t)
	b.fill(300, 30)
	x := b.prepare(func(c *Config) { c.DrainLimit = time.Millisecond })
	x.fake.hold(true) // before the first record
	x.run()
	x.await("all are with the producer", func() bool { return len(x.fake.sent()) == 300 })
	_ = x.finish() // its time is over before anything is acknowledged
	require.Equal(t, 300, b.unpublished())
	y := b.start()
	y.awaitPublished()
	require.NoError(t, y.finish())
	require.Equal(t, 300, ordered(t, append(x.fake.sent(), y.fake.sent()...)), "in flight was all of it")
}

func TestRelayStopsGracefully(t *testing.T) {
	b := newBed(t)
	b.fill(20_000, 100)
	x := b.prepare(func(c *Config) { c.WindowRecords = 3000 })
	x.fake.hold(true) // or it is through before the test has noticed its beginning
	x.run()
	x.await("it has begun", func() bool { return len(x.fake.sent()) > 2000 })
	x.stop()
	x.fake.hold(false)
	require.NoError(t, x.finish())
	n := len(x.fake.sent())
	require.Less(t, n, 20_000)
	require.Equal(t, 20_000-n, b.unpublished(), "everything that was sent is marked")
	y := b.start()
	y.awaitPublished()
	require.NoError(t, y.finish())
	require.Zero(t, ordered(t, append(x.fake.sent(), y.fake.sent()...)))
	require.Len(t, append(x.fake.sent(), y.fake.sent()...), 20_000)
}
