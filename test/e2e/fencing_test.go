//go:build e2e

package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// twins are two instances of one slot, each with its own line to Postgres.
type twins struct {
	*rig
	kafka     *proxy.Proxy
	lines     [2]*proxy.Proxy
	instances [2]*process.Process
	holds     int // which of the two
	conn      *pgx.Conn
}

func newTwins(t *testing.T, s surroundings) *twins {
	t.Helper()
	s.walSenderTimeout = "2s"
	_, broker := sharedKafka(t)
	p := &twins{rig: newRig(t, s), kafka: broker}
	p.conn = connect(t, p.db.DSN)
	for i := range p.instances {
		var dsn string
		p.lines[i], dsn = postgresProxy(t, p.db)
		p.instances[i] = p.launch(map[string]string{"CDC_OUTBOX_POSTGRES_DSN": dsn})
		if i == 0 {
			require.NoError(t, p.instances[0].Ready(p.within(patience)))
		}
	}
	p.awaitWaiting(1)
	return p
}

// waits reports whether the instance is a waiting one.
func (p *twins) waits(i int) bool {
	_, why := p.instances[i].IsReady()
	return strings.Contains(why, "the slot is held by")
}

func (p *twins) awaitWaiting(i int) {
	p.Helper()
	require.Eventually(p, func() bool { return p.waits(i) }, patience, 20*time.Millisecond,
		"instance %d waits for the slot", i)
}

// end ends the session that holds the slot.
func (p *twins) end() {
	p.Helper()
	_, err := p.conn.Exec(p.Context(), `SELECT pg_terminate_backend(active_pid, 1000) FROM pg_replication_slots
		WHERE slot_name = $1 AND active`, p.db.Slot)
	require.NoError(p, err)
}

// awaitChange waits until the other instance has the slot and relays.
func (p *twins) awaitChange() {
	p.Helper()
	p.holds = 1 - p.holds
	require.NoError(p, p.instances[p.holds].Ready(p.within(patience)))
}

// change has the slot change hands by the accident named, and returns when the loser waits for it.
func (p *twins) change(accident string) {
	p.Helper()
	loser := p.holds
	switch accident {
	case "ended":
		// The loser connects again sooner than the other instance checks. A session of the other instance is not ended.
		require.Eventually(p, func() bool {
			if ready, _ := p.instances[1-loser].IsReady(); ready {
				return true
			}
			if ready, _ := p.instances[loser].IsReady(); ready {
				p.end()
			}
			return false
		}, patience, 100*time.Millisecond)
		p.awaitChange()
	case "frozen":
		require.NoError(p, p.instances[loser].Signal(syscall.SIGSTOP))
		p.end()
		p.awaitChange()
		p.pause(0, 500*time.Millisecond)
		require.NoError(p, p.instances[loser].Signal(syscall.SIGCONT))
	case "cut":
		p.lines[loser].Stall(true)
		p.awaitChange()
		p.lines[loser].Stall(false)
	case "killed":
		p.instances[loser].Kill()
		p.awaitChange()
		p.instances[loser] = p.launch(map[string]string{
			"CDC_OUTBOX_POSTGRES_DSN": p.db.DSNVia(p.lines[loser].Addr(), p.db.Name),
		})
	}
	p.awaitWaiting(loser)
	require.True(p, p.instances[0].Running())
	require.True(p, p.instances[1].Running())
}

// fenced is how often Kafka has fenced one of the two.
func (p *twins) fenced() (n float64) {
	p.Helper()
	for _, i := range p.instances {
		m, err := i.Metric("cdc_outbox_producer_fenced_total")
		require.NoError(p, err)
		n += m
	}
	return n
}

// Kafka is slow, so the holder has a window full of records when it loses the slot, by whatever accident. The last
// record of each key is its newest event all the same, and the loser waits for the slot.
func TestFencingAtLeastOnce(t *testing.T) {
	p := newTwins(t, surroundings{})
	writers := p.oracle.StartWriters(oracle.Load{})
	for range soak(10, 1) {
		for _, accident := range []string{"ended", "frozen", "cut", "killed"} {
			p.kafka.SetShape(proxy.Up, proxy.Shape{Bandwidth: 30_000})
			p.pause(700*time.Millisecond, 1200*time.Millisecond)
			p.change(accident)
			p.kafka.SetShape(proxy.Up, proxy.Shape{})
			p.pause(300*time.Millisecond, 800*time.Millisecond)
		}
	}
	p.Logf("written: %+v, fenced by Kafka: %v", writers.Stop(), p.fenced())
	p.verdict()
}

// A holder that froze with records on the wire: its batches arrive while the next one publishes, and when it awakes it
// sends the rest.
func TestFencingFrozenWithRecordsOnTheWire(t *testing.T) {
	p := newTwins(t, surroundings{})
	writers := p.oracle.StartWriters(oracle.Load{})
	for range soak(10, 2) {
		p.pause(300*time.Millisecond, 600*time.Millisecond)
		p.kafka.SetShape(proxy.Up, proxy.Shape{Latency: 2 * time.Second})
		p.pause(300*time.Millisecond, 600*time.Millisecond)
		loser := p.holds
		require.NoError(t, p.instances[loser].Signal(syscall.SIGSTOP))
		p.kafka.SetShape(proxy.Up, proxy.Shape{})
		p.end()
		p.awaitChange()
		p.pause(300*time.Millisecond, 600*time.Millisecond)
		require.NoError(t, p.instances[loser].Signal(syscall.SIGCONT))
		p.awaitWaiting(loser)
	}
	p.Logf("written: %+v, fenced by Kafka: %v", writers.Stop(), p.fenced())
	p.verdict()
}

// An exactly-once pair changes hands twenty times, under load and idle, and never stops.
func TestFencingExactlyOnceForEver(t *testing.T) {
	t.Parallel()
	p := newTwins(t, surroundings{exactlyOnce: true})
	accidents := []string{"ended", "frozen", "cut", "killed", "frozen", "ended", "killed", "frozen", "killed", "frozen"}
	for range soak(5, 1) {
		writers := p.oracle.StartWriters(oracle.Load{})
		for _, accident := range accidents {
			p.pause(100*time.Millisecond, 500*time.Millisecond)
			p.change(accident)
		}
		p.Logf("written: %+v", writers.Stop())
		require.NoError(t, p.oracle.AwaitCaughtUp(p.within(patience)))
		for _, accident := range accidents {
			p.change(accident)
		}
	}
	writers := p.oracle.StartWriters(oracle.Load{})
	written(p.T, writers, 200)
	p.Logf("written: %+v, fenced by Kafka: %v", writers.Stop(), p.fenced())
	p.once()
}
