//go:build e2e

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/testkit"
	"github.com/cdc-outbox/cdc-outbox/internal/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/internal/testkit/postgres"
)

// once is the verdict where nothing may come twice.
func (r *rig) once() {
	r.Helper()
	require.Zero(r, r.verdict().Duplicates)
}

// Ten crashes of the connector under load: a read_committed consumer sees each event once, in order.
func TestExactlyOnce_killed_ten_times(t *testing.T) {
	r := newRig(t, surroundings{exactlyOnce: true})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for range 10 {
		r.pause(50*time.Millisecond, 1500*time.Millisecond)
		p.Kill()
		p = r.launch()
	}
	r.Logf("written: %+v", writers.Stop())
	r.once()
}

// Postgres crashes, and the connector with it: before PostgreSQL 17 the slot falls back far behind what is in Kafka.
func TestExactlyOnce_over_crashes_of_Postgres(t *testing.T) {
	db := testkit.DedicatedPostgres(t, postgres.Options{})
	r := newRig(t, surroundings{db: db, exactlyOnce: true})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for i := range 2 {
		r.pause(1500*time.Millisecond, 2500*time.Millisecond)
		db.Kill()
		if i == 1 {
			p.Kill()
			p = r.launch()
		}
		r.pause(0, time.Second)
		require.NoError(t, db.Start(r.within(30*time.Second)))
	}
	time.Sleep(time.Second)
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(30*time.Second)))
	r.once()
}

// An instance freezes, a second one gets the slot, the first awakes: it is fenced, says by whom, and exits with code 3.
func TestExactlyOnce_frozen_zombie(t *testing.T) {
	r := newRig(t, surroundings{exactlyOnce: true})
	first := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	second := r.launch()
	time.Sleep(2 * time.Second)
	require.NoError(t, first.Signal(syscall.SIGSTOP))
	conn := connect(t, r.db.DSN)
	_, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active`, r.db.Slot)
	require.NoError(t, err)
	require.NoError(t, second.Ready(r.within(30*time.Second)))
	time.Sleep(2 * time.Second)
	require.NoError(t, first.Signal(syscall.SIGCONT))
	code, err := first.Wait(30 * time.Second)
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Contains(t, first.Log(), "took over and has committed up to")
	r.Logf("the zombie: %s", first.LogTail(2))
	time.Sleep(time.Second)
	r.Logf("written: %+v", writers.Stop())
	require.True(t, second.Running())
	r.once()
}

// Kafka is killed under the transactions, with its only broker.
func TestExactlyOnce_over_kill_9_of_Kafka(t *testing.T) {
	r := newRig(t, surroundings{exactlyOnce: true})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for range 2 {
		r.pause(1500*time.Millisecond, 2500*time.Millisecond)
		r.kafka.Brokers[0].Kill()
		require.NoError(t, r.kafka.Brokers[0].Start(r.within(60*time.Second)))
	}
	time.Sleep(2 * time.Second)
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(60*time.Second)))
	r.once()
}

// The rate of both kinds of delivery, in one run: catching up with rows that are there.
func TestExactlyOnce_rate(t *testing.T) {
	const rows = 400_000
	rates := map[string]float64{}
	for _, delivery := range []string{"at_least_once", "exactly_once", "at_least_once", "exactly_once"} {
		r, kind, topic := plainRig(t, testkit.Postgres(t))
		r.env["CDC_OUTBOX_DELIVERY"] = delivery
		p := r.start()
		_, err := p.Stop(20 * time.Second)
		require.NoError(t, err)
		for range 40 {
			r.insert(kind, rows/40)
		}
		began := time.Now()
		p = r.launch()
		require.NoError(t, r.kafka.Await(r.within(120*time.Second), rows, topic))
		rate := rows / time.Since(began).Seconds()
		t.Logf("%s: %.0f rows/s, %v", delivery, rate, p.Usage())
		rates[delivery] = max(rates[delivery], rate)
	}
	t.Log(fmt.Sprintf("exactly_once runs at %.0f %% of at_least_once", 100*rates["exactly_once"]/rates["at_least_once"]))
}
