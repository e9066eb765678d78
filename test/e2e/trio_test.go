//go:build e2e

package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// TestThreeInstances: accidents befall any of three instances of one slot, whether it relays or waits, and the next
// comes before the last is over. Within half a minute of each (a minute without soak) at least one instance relays, and
// all go on.
func TestThreeInstances(t *testing.T) {
	for name, exactlyOnce := range map[string]bool{"at least once": false, "exactly once": true} {
		t.Run(name, func(t *testing.T) { threeInstances(t, exactlyOnce) })
	}
}

func threeInstances(t *testing.T, exactlyOnce bool) {
	_, broker := sharedKafka(t)
	r := newRig(t, surroundings{exactlyOnce: exactlyOnce, walSenderTimeout: "2s"})
	conn := connect(t, r.db.DSN)
	var lines [3]*proxy.Proxy
	var instances [3]*process.Process
	launch := func(i int) {
		instances[i] = r.launch(map[string]string{"CDC_OUTBOX_POSTGRES_DSN": r.db.DSNVia(lines[i].Addr(), r.db.Name)})
	}
	for i := range instances {
		lines[i], _ = postgresProxy(t, r.db)
		launch(i)
	}
	relays := func() bool {
		for _, p := range instances {
			if ready, _ := p.IsReady(); ready {
				return true
			}
		}
		return false
	}
	require.Eventually(t, relays, patience, 20*time.Millisecond)
	writers := r.oracle.StartWriters(oracle.Load{})
	accidents := map[string]func(i int) (over func()){
		"frozen": func(i int) func() {
			require.NoError(t, instances[i].Signal(syscall.SIGSTOP))
			return func() { require.NoError(t, instances[i].Signal(syscall.SIGCONT)) }
		},
		"cut": func(i int) func() {
			lines[i].Stall(true)
			return func() { lines[i].Stall(false) }
		},
		"killed": func(i int) func() {
			instances[i].Kill()
			return func() { launch(i) }
		},
		"ended": func(int) func() {
			_, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
				WHERE slot_name = $1 AND active`, r.db.Slot)
			require.NoError(t, err)
			return func() {}
		},
		"kafka slow": func(int) func() {
			broker.SetShape(proxy.Up, proxy.Shape{Bandwidth: 30_000})
			return func() { broker.SetShape(proxy.Up, proxy.Shape{}) }
		},
	}
	names := []string{"frozen", "cut", "killed", "ended", "kafka slow"}
	for range soak(20, 5) {
		befallen := r.rng.Perm(3)[:2] // one is well
		var ends []func()
		for _, i := range befallen {
			ends = append(ends, accidents[names[r.rng.IntN(len(names))]](i))
			r.pause(0, 700*time.Millisecond)
		}
		require.Eventually(t, func() bool { return instances[3-befallen[0]-befallen[1]].Running() && relays() },
			soak(30*time.Second, time.Minute), 20*time.Millisecond)
		for _, over := range ends {
			over()
			r.pause(0, 300*time.Millisecond)
		}
	}
	t.Logf("written: %+v", writers.Stop())
	if exactlyOnce {
		r.once()
	} else {
		r.verdict()
	}
	for i, p := range instances {
		require.True(t, p.Running(), "instance %d", i)
	}
}
