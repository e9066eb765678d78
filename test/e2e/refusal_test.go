//go:build e2e

package e2e

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// What cannot work ends at once with the exit code that says who must act, and a message that names the object and the
// remedy.
func TestRefusal(t *testing.T) {
	t.Parallel()
	c, _ := sharedKafka(t)
	table := testkit.Postgres(t)
	emptyTable(t, table)
	lost := testkit.Postgres(t)
	emptyTable(t, lost)
	lost.Exec(t, "CREATE PUBLICATION "+lost.Publication+" FOR TABLE outbox")
	replica := testkit.DedicatedPostgres(t, postgres.Options{Settings: map[string]string{"wal_level": "replica"}})
	emptyTable(t, replica)
	for name, tc := range map[string]struct {
		db   *testkit.Database
		args []string
		env  map[string]string
		code int
		say  []string
	}{
		"an unknown variable": {
			db: table, env: map[string]string{"CDC_OUTBOX_POSTGRES_SLOTT": "x"}, code: 2,
			say: []string{"CDC_OUTBOX_POSTGRES_SLOTT", "CDC_OUTBOX_POSTGRES_SLOT"},
		},
		"an unknown flag": {
			db: table, args: []string{"run", "--postgres-slott=x"}, code: 2, say: []string{"postgres-slott"},
		},
		"an impossible value": {
			db: table, env: map[string]string{"CDC_OUTBOX_WINDOW_RECORDS": "many"}, code: 2, say: []string{"many"},
		},
		"a missing table":   {db: testkit.Postgres(t), code: 3, say: []string{"outbox", "cdc-outbox setup"}},
		"wal_level replica": {db: replica, code: 3, say: []string{"wal_level", "ALTER SYSTEM SET wal_level"}},
		"no slot, setup never": {
			db: table, env: map[string]string{"CDC_OUTBOX_POSTGRES_SETUP": "never"}, code: 3,
			say: []string{table.Publication, "pg_create_logical_replication_slot"},
		},
		"a lost slot": {db: lost, code: 3, say: []string{lost.Slot}},
		"check, no server there": {
			db: table, args: []string{"check"},
			env:  map[string]string{"CDC_OUTBOX_POSTGRES_DSN": "postgres://postgres@127.0.0.1:1/x?sslmode=disable"},
			code: 3, say: []string{"127.0.0.1:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{
				"CDC_OUTBOX_POSTGRES_DSN": tc.db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": tc.db.Slot,
				"CDC_OUTBOX_POSTGRES_PUBLICATION": tc.db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": c.Addrs()[0],
			}
			maps.Copy(env, tc.env)
			p, err := process.Start(process.Options{Args: tc.args, Env: env})
			require.NoError(t, err)
			defer p.Close()
			code, err := p.Wait(patience)
			require.NoError(t, err)
			out := p.Stdout() + p.Log()
			require.Equal(t, tc.code, code, out)
			for _, text := range tc.say {
				require.Contains(t, out, text)
			}
		})
	}
}

// An unreachable database is waited for, not ready, and says so.
func TestRefusalNotForTransientFaults(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{})
	r, _, _ := plainRig(t, db)
	require.NoError(t, db.Stop(r.within(patience), postgres.Fast))
	p := r.launch()
	t.Logf("not ready: %s", awaitNotReady(t, p, patience, "refused"))
	time.Sleep(2 * time.Second) //waits:ok attempts follow with pauses, and none of them ends it
	require.True(t, p.Running(), p.LogTail(10))
	_ = awaitNotReady(t, p, patience, "refused")
	require.NoError(t, db.Start(r.within(patience)))
	require.NoError(t, p.Ready(r.within(patience)))
	code, err := p.Stop(patience)
	require.NoError(t, err)
	require.Zero(t, code)
}

// A slot that an operator drops is never re-created in silence: a new slot would begin after a gap.
func TestRefusalSlotDroppedWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, surroundings{})
	p := r.start()
	conn := connect(t, r.db.DSN)
	require.Eventually(t, func() bool {
		_, err := conn.Exec(t.Context(),
			`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active`,
			r.db.Slot)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `SELECT pg_drop_replication_slot($1)`, r.db.Slot)
		return err == nil
	}, patience, time.Millisecond, "the connector comes back quickly; try until the drop is faster")
	code, err := p.Wait(patience)
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Contains(t, p.Log(), r.db.Slot)
	again := r.launch()
	code, err = again.Wait(patience)
	require.NoError(t, err)
	require.Equal(t, 3, code, again.LogTail(5))
}
