//go:build e2e

package e2e

import (
	"maps"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// pollingRig is the surroundings of relays that poll, with the oracle as judge.
func pollingRig(t *testing.T, s surroundings) *rig {
	t.Helper()
	if s.db == nil {
		s.db = testkit.Postgres(t)
	}
	if s.kafka == nil {
		s.kafka, _ = sharedKafka(t)
	}
	if s.viaDSN == "" {
		s.viaDSN = s.db.DSN
	}
	seed := oracle.Seed(t)
	o, err := oracle.New(t.Context(), oracle.Config{
		DSN: s.db.DSN, Kafka: s.kafka.Client, Slot: s.db.Slot,
		AggregateTypes: []string{s.db.Name + "_a", s.db.Name + "_b"}, Seed: seed, Polling: true,
	})
	require.NoError(t, err)
	t.Cleanup(o.Close)
	_, err = polling.Apply(t.Context(), s.db.DSN, polling.Setup{
		Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		Columns: polling.Columns{
			Key: "aggregate_id", Sequence: "seq", Published: "published_at", Timestamp: "created_at",
		},
	})
	require.NoError(t, err)
	r := &rig{
		T: t, db: s.db, kafka: s.kafka, oracle: o, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(),
		env: map[string]string{
			"CDC_OUTBOX_SOURCE": "polling", "CDC_OUTBOX_POSTGRES_DSN": s.viaDSN,
			"CDC_OUTBOX_KAFKA_BROKERS": strings.Join(s.kafka.Addrs(), ","), "CDC_OUTBOX_POLLING_WORKERS": "2",
			"CDC_OUTBOX_POLLING_BATCH": "50",
		},
	}
	maps.Copy(r.env, s.env)
	return r
}

// Two processes of two workers each, killed again and again under load with overlapping, rolled-back and prepared
// transactions: nothing is lost, nothing made up, and each key's events first appear in the order of their commits.
func TestPollingKilledUnderLoad(t *testing.T) {
	t.Parallel()
	r := pollingRig(t, surroundings{})
	ps := []*process.Process{r.start(), r.start()}
	writers := r.oracle.StartWriters(oracle.Load{Writers: 4, Pause: 5 * time.Millisecond, Prepared: true})
	for i := range soak(40, 6) {
		r.pause(50*time.Millisecond, 900*time.Millisecond)
		ps[i%2].Kill()
		ps[i%2] = r.launch()
	}
	r.Logf("written: %+v", writers.Stop())
	r.verdict()
}

// A process that is frozen keeps its lanes until the server ends its sessions. Others then publish what it had in
// flight; what it writes when it wakes up are repeats.
func TestPollingFrozenProcess(t *testing.T) {
	t.Parallel()
	r := pollingRig(t, surroundings{})
	ps := []*process.Process{r.start(), r.start()}
	writers := r.oracle.StartWriters(oracle.Load{Writers: 3, Pause: 5 * time.Millisecond})
	for i := range soak(6, 1) {
		frozen := ps[i%2]
		r.pause(300*time.Millisecond, 800*time.Millisecond)
		require.NoError(t, frozen.Signal(syscall.SIGSTOP))
		r.pause(11*time.Second, 12*time.Second) // longer than its sessions live
		require.NoError(t, frozen.Signal(syscall.SIGCONT))
		r.pause(300*time.Millisecond, 800*time.Millisecond)
	}
	r.Logf("written: %+v", writers.Stop())
	r.verdict()
	for _, p := range ps {
		require.True(t, p.Running())
	}
}

// The broker restarts, the connections to Postgres are cut and refused: nothing is repeated while the processes live,
// unless a lane changed hands.
func TestPollingFaultsOnBothSides(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	p, dsn := postgresProxy(t, db)
	c, err := kafka.Start(t.Context(), kafka.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	r := pollingRig(t, surroundings{db: db, viaDSN: dsn, kafka: c})
	ps := []*process.Process{r.start(), r.start()}
	writers := r.oracle.StartWriters(oracle.Load{Writers: 2, Pause: 30 * time.Millisecond})
	for range soak(10, 1) {
		r.pause(200*time.Millisecond, 600*time.Millisecond)
		p.Reset()
		r.pause(200*time.Millisecond, 600*time.Millisecond)
		c.Node(1).Kill()
		require.NoError(t, c.Node(1).Start(r.within(patience)))
		r.pause(200*time.Millisecond, 600*time.Millisecond)
		p.Away(true)
		r.pause(200*time.Millisecond, 600*time.Millisecond)
		p.Away(false)
	}
	r.Logf("written: %+v", writers.Stop())
	rep := r.verdict()
	r.Logf("%d duplicates", rep.Duplicates)
	for _, p := range ps {
		require.NoError(t, p.Ready(r.within(patience)))
		require.True(t, p.Running())
	}
}

// A graceful stop repeats nothing, also with several processes.
func TestPollingStoppedGracefully(t *testing.T) {
	t.Parallel()
	r := pollingRig(t, surroundings{})
	ps := []*process.Process{r.start(), r.start()}
	writers := r.oracle.StartWriters(oracle.Load{Pause: 2 * time.Millisecond})
	for i := range soak(20, 4) {
		r.pause(200*time.Millisecond, 600*time.Millisecond)
		code, err := ps[i%2].Stop(patience)
		require.NoError(t, err)
		require.Zero(t, code, ps[i%2].LogTail(10))
		ps[i%2] = r.start()
	}
	r.Logf("written: %+v", writers.Stop())
	require.Zero(t, r.verdict().Duplicates)
}

// From polling to the log under load: relays that poll are held, the rows they have left are listed in the slot's
// snapshot, and the connector goes on. Nothing is missing, nothing comes twice, and no key's event from the log
// overtakes one from the table.
func TestPollingMigratesToLog(t *testing.T) {
	for range soak(10, 1) {
		r := pollingRig(t, surroundings{})
		ps := []*process.Process{r.start(), r.start()}
		writers := r.oracle.StartWriters(oracle.Load{Writers: 4, Pause: 2 * time.Millisecond})
		r.pause(500*time.Millisecond, 1500*time.Millisecond)
		wal := map[string]string{
			"CDC_OUTBOX_SOURCE": "wal", "CDC_OUTBOX_POSTGRES_SNAPSHOT": "initial",
			"CDC_OUTBOX_POSTGRES_SLOT": r.db.Slot, "CDC_OUTBOX_POSTGRES_PUBLICATION": r.db.Publication,
			"CDC_OUTBOX_POLLING_WORKERS": "2", "CDC_OUTBOX_POLLING_BATCH": "8000",
			"CDC_OUTBOX_POLLING_INTERVAL": "100ms",
		}
		env := maps.Clone(r.env)
		maps.Copy(env, wal)
		migration, err := process.Start(process.Options{Args: []string{"migrate", "polling"}, Env: env})
		require.NoError(t, err)
		code, err := migration.Wait(patience)
		require.NoError(t, err)
		require.Zero(t, code, migration.Log())
		t.Log(migration.Stdout())
		require.NoError(t, migration.Close())
		for _, p := range ps {
			code, err := p.Wait(patience)
			require.NoError(t, err)
			require.Equal(t, 3, code, "it has nothing to do any more and says so")
			require.Contains(t, p.Log(), "published_at")
		}
		r.pause(300*time.Millisecond, 800*time.Millisecond) // rows that only the log has
		p := r.start(wal)
		r.pause(500*time.Millisecond, 1000*time.Millisecond)
		r.Logf("written: %+v", writers.Stop())
		require.NoError(t, p.Ready(r.within(patience)))
		require.NoError(t, r.oracle.AwaitConfirmed(r.within(patience)))
		rep, err := r.oracle.Verdict(r.within(patience))
		require.NoError(t, err)
		r.Logf("%v", rep)
		require.NoError(t, rep.Err())
		require.Zero(t, rep.Duplicates)
		_, err = p.Stop(patience)
		require.NoError(t, err)
	}
}
