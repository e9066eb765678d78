package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// ended waits for the end of a connector and returns its exit code.
func (r *running) ended() int {
	r.t.Helper()
	select {
	case <-r.done:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		r.t.Fatal("it goes on")
		return 0
	}
}

// slotAt is where the slot is.
func (b *bed) slotAt() string {
	b.Helper()
	conn, err := b.db.Connect(b.Context(), b.db.Name)
	require.NoError(b, err)
	defer conn.Close(b.Context())
	slot, err := postgres.LookupSlot(b.Context(), conn, b.db.Slot)
	require.NoError(b, err)
	return slot.ConfirmedFlush.String()
}

// relayedTwenty is a connector on a server of its own that has relayed twenty events, and a copy of the server's disk
// from before them.
func relayedTwenty(t *testing.T, env ...string) (b *bed, disk *pgserver.Copy, run *running) {
	t.Helper()
	b = newBed(t, testkit.DedicatedPostgres(t, pgserver.Options{}), "orders.events")
	b.env = append(b.env, env...)
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	disk, err := b.db.Copy(t.Context(), pgserver.Fast)
	require.NoError(t, err)
	t.Cleanup(func() { disk.Close() })
	run = start(t, b.env)
	run.awaitReady(200)
	b.db.Exec(t, insertOrders)
	b.records("orders.events", 20)
	return b, disk, run
}

// TestRestoredServerIsRefused: a server that was put back to a snapshot of its disk, under a live connector or while it
// was down, its log grown past the old position or not, is refused before anything is confirmed. After `slot accept`
// all that is committed there arrives.
func TestRestoredServerIsRefused(t *testing.T) {
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			db := testkit.DedicatedPostgres(t, pgserver.Options{})
			b := newBed(t, db, "orders.events")
			b.env = append(b.env, "CDC_OUTBOX_DELIVERY="+delivery)
			require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
			run := start(t, b.env)
			run.awaitReady(200)
			db.Exec(t, insertOrders)
			b.records("orders.events", 20)
			require.Equal(t, 0, run.stop(syscall.SIGTERM))
			disk, err := db.Copy(t.Context(), pgserver.Fast)
			require.NoError(t, err)
			defer disk.Close()

			run = start(t, b.env)
			run.awaitReady(200)
			db.Exec(t, insertOrders)
			b.records("orders.events", 40)
			require.NoError(t, db.PutBack(t.Context(), disk))
			require.Equal(t, 3, run.ended(), run.text())
			require.Contains(t, run.text(), "put back to an older state")
			require.Contains(t, run.text(), "cdc-outbox slot accept")

			db.Exec(t, `CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)`)
			db.Exec(t, insertOrders)
			before := b.slotAt()
			for range 2 {
				r := invoke(t, b.env, "run", "--http-listen=off")
				require.Equal(t, 3, r.code, r.all())
				require.Contains(t, r.stderr, "put back to an older state")
				require.Contains(t, r.stderr, "knows of write")
				require.NotContains(t, r.stderr, "fenced earlier producers", "its twin goes on")
			}
			require.Equal(t, before, b.slotAt(), "nothing was confirmed")
			require.Len(t, b.records("orders.events", 40), 40, "nothing was published")
			r := invoke(t, b.env, "slot")
			require.Contains(t, r.stdout, "put back to an older state")
			require.Contains(t, r.stdout, "Kafka knows of")

			r = invoke(t, b.env, "slot", "accept")
			require.Equal(t, 0, r.code, r.all())
			require.Contains(t, r.stdout, "usable, and where it was left")
			run = start(t, b.env)
			run.awaitReady(200)
			require.Len(t, b.records("orders.events", 60), 60)
			db.Exec(t, insertOrders)
			b.records("orders.events", 80)
			require.Equal(t, 0, run.stop(syscall.SIGTERM))
		})
	}
}

// TestServerRecoveredToAPointInTime: the recovered server has a timeline of its own, and less than Kafka. It is refused
// from 17 on. Before, it could be a standby that lagged, with a slot that a tool copied, so the connector goes on, says
// which events Kafka alone has, and sends all that the server holds.
func TestServerRecoveredToAPointInTime(t *testing.T) {
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			b, disk, run := relayedTwenty(t, "CDC_OUTBOX_DELIVERY="+delivery)
			db := b.db
			here := b.restorePoint("here")
			db.Exec(t, insertOrders)
			b.records("orders.events", 40)
			b.awaitCheckpoint(here)
			require.NoError(t, db.RecoverTo(t.Context(), disk, "here"))
			if db.Major() < 17 {
				require.Eventually(t, func() bool {
					return strings.Contains(run.text(), "promoted before it had everything that was published")
				}, time.Minute, 50*time.Millisecond)
				b.relaysFurther(run, 60)
				return
			}
			require.Equal(t, 3, run.ended(), run.text())
			db.Exec(t, insertOrders)
			before := b.slotAt()
			r := invoke(t, b.env, "run", "--http-listen=off")
			require.Equal(t, 3, r.code, r.all())
			require.Contains(t, r.stderr, "branched off timeline 1")
			require.Contains(t, r.stderr, "cdc-outbox slot accept")
			require.Equal(t, before, b.slotAt(), "nothing was confirmed")
			require.Len(t, b.records("orders.events", 40), 40, "nothing was published")

			r = invoke(t, b.env, "slot", "accept")
			require.Equal(t, 0, r.code, r.all())
			run = start(t, b.env)
			run.awaitReady(200)
			b.relaysFurther(run, 80)
		})
	}
}

// TestServerRecoveredUnderALivingConnectorWithoutACheckpoint: without a checkpoint the recovered server is read from.
// The connector says that Kafka has events which that server does not have, and `repair --ghosts` lists them.
func TestServerRecoveredUnderALivingConnectorWithoutACheckpoint(t *testing.T) {
	t.Parallel()
	b, disk, run := relayedTwenty(t, "CDC_OUTBOX_POSTGRES_CHECKPOINT=off")
	db := b.db
	here := b.restorePoint("here")
	db.Exec(t, insertOrders)
	b.records("orders.events", 40)
	require.Eventually(t, func() (past bool) {
		b.query(`SELECT confirmed_flush_lsn > $1::pg_lsn FROM pg_replication_slots WHERE slot_name = $2`, here,
			db.Slot)(&past)
		return past
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, db.RecoverTo(t.Context(), disk, "here"))
	require.Eventually(t, func() bool {
		return strings.Contains(run.text(), "promoted before it had everything that was published") || // before 17
			strings.Contains(run.text(), "this server was put back to an older state")
	}, time.Minute, 50*time.Millisecond)
	run.awaitReady(200)
	db.Exec(t, insertOrders)
	b.records("orders.events", 60)
	r := invoke(t, b.env, "repair", "--ghosts", "--json")
	require.Equal(t, 3, r.code, r.all())
	require.Equal(t, 20, strings.Count(r.stdout, `"offset"`), r.all())
	require.Equal(t, 0, run.stop(syscall.SIGTERM))
}

// relaysFurther commits twenty events and stops the connector when they are confirmed, with at least n records. The
// first twenty events of the recovered server are sent again unless its checkpoint already covers them.
func (b *bed) relaysFurther(run *running, n int64) {
	b.Helper()
	there := b.restorePoint("there")
	b.db.Exec(b.T, insertOrders)
	b.awaitCheckpoint(there)
	b.records("orders.events", n)
	require.Equal(b, 0, run.stop(syscall.SIGTERM))
}

// restorePoint makes one and returns where it is.
func (b *bed) restorePoint(name string) (at string) {
	b.query(`SELECT pg_create_restore_point($1)::text`, name)(&at)
	return at
}

// awaitCheckpoint waits until the checkpoint is past an LSN.
func (b *bed) awaitCheckpoint(past string) {
	b.Helper()
	require.Eventually(b, func() (there bool) {
		b.query(`SELECT coalesce(bool_or(position > $1::pg_lsn), false) FROM cdc_outbox_slots`, past)(&there)
		return there
	}, time.Minute, 50*time.Millisecond)
}

// query asks for one value.
func (b *bed) query(sql string, args ...any) func(into any) {
	b.Helper()
	conn, err := b.db.Connect(b.Context(), b.db.Name)
	require.NoError(b, err)
	return func(into any) {
		b.Helper()
		defer conn.Close(b.Context())
		require.NoError(b, conn.QueryRow(b.Context(), sql, args...).Scan(into))
	}
}
