package replication

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

func TestCheckpointNeverLagsSlot(t *testing.T) {
	s := remembering(t, testkit.Postgres(t))
	s.StatusInterval = 50 * time.Millisecond
	require.NoError(t, Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		for range 25 {
			s.insert(t)
			if _, err := s.ids(st, 1); err != nil {
				return err
			}
			flushed := s.flushed(t)
			require.LessOrEqual(t, flushed, s.remembered(t))
			s.hears(t)
		}
		require.Eventually(t, func() bool { return s.remembered(t) > st.Identity().ConfirmedFlush }, time.Minute,
			20*time.Millisecond, "it is written down while it goes on")
		return st.Finish(ctx)
	}))
	require.Equal(t, lsn.LSN(s.confirmed.Load()), s.flushed(t), "at the end nothing is held back")
	require.Equal(t, s.flushed(t), s.remembered(t))
}

// Bug (checkpoint): A slot that was dropped and re-created was mistaken for the old slot if less than 4 KiB of WAL, a
// small event or two, was in between. Cost: that event was lost, without a report.
func TestCheckpointNoticesMovedSlot(t *testing.T) {
	for name, move := range map[string][]string{
		"re-created": {
			`SELECT pg_drop_replication_slot('$slot')`, `INSERT INTO outbox VALUES (2, 'b')`,
			`SELECT pg_create_logical_replication_slot('$slot', 'pgoutput')`,
		},
		"advanced": {
			`INSERT INTO outbox VALUES (2, 'b')`,
			`SELECT pg_replication_slot_advance('$slot', pg_current_wal_lsn())`,
		},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := remembering(t, testkit.Postgres(t))
				s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
				require.NoError(t, s.readOne(t, crash))
				for _, sql := range move {
					require.Eventually(t, func() bool { // a crashed reader's walsender holds the slot a moment longer
						return s.Server.Exec(t.Context(), s.Name, strings.ReplaceAll(sql, "$slot", s.Config.Slot)) ==
							nil
					}, 30*time.Second, 50*time.Millisecond, sql)
				}
				err := Run(t.Context(), s.Config, drain)
				require.Equal(t, fault.Operator, fault.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "beyond the last confirmed position")
				_, remedy := fault.Split(err)
				require.Contains(t, remedy.String(), "cdc-outbox repair")
			})
		}
	}
}

// TestCheckpointToleratesCrashes: none of them is a gap.
func TestCheckpointToleratesCrashes(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, pgserver.Options{})
	s := remembering(t, db)
	for i := 1; i <= 3; i++ {
		s.insert(t)
		require.NoError(t, s.readOne(t, i != 2))
		s.confirmed.Store(0) // another process
		if i == 1 {
			db.Kill()
			require.Eventually(t, func() bool {
				return db.Start(t.Context()) == nil
			}, 2*time.Minute, 200*time.Millisecond, "its last processes may take a moment to go")
		}
	}
}

// TestCheckpointDoesNotDelayShutdown: Postgres has ended every session by then, so nothing can be written down any
// more, and waits for the walsender's client to confirm the last record.
func TestCheckpointDoesNotDelayShutdown(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, pgserver.Options{Settings: patientServer})
	s := remembering(t, db)
	s.insert(t)
	st, stop := s.following(t)
	s.catchesUp(t, st)
	limit, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	require.NoError(t, db.Stop(limit, pgserver.Fast))
	require.NoError(t, stop())
}

// TestCheckpointSkippedWhereImpossible.
func TestCheckpointSkippedWhereImpossible(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.Config.Checkpoint = identifier.Table{Schema: "nowhere", Name: "to_be_found"}
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	require.NoError(t, s.readOne(t, false))
	require.Equal(t, lsn.LSN(s.confirmed.Load()), s.flushed(t))
}

func TestCheckpointHoldsBackUnstored(t *testing.T) {
	m := &checkpoint{}
	m.stored.Store(10000)
	require.EqualValues(t, 10000, m.limit(20000))
	require.EqualValues(t, 9000, m.limit(9000))
	m.off.Store(true)
	require.EqualValues(t, 20000, m.limit(20000))
	require.EqualValues(t, 20000, (*checkpoint)(nil).limit(20000))
}

// TestCheckpointComesToRest: what writing it down adds to the WAL, and the server's own records after it, are written
// down ever more rarely, but they are.
//
// Bug (setup): WAL of less than 512 bytes was never recorded, so a slot in an idle cluster did not confirm the
// running-xacts record that moves `restart_lsn`. Cost: WAL pinned by a burst stayed pinned until the next burst.
func TestCheckpointComesToRest(t *testing.T) {
	m := &checkpoint{}
	m.stored.Store(10000)
	now := time.Now()
	r := quietPace{wait: quietWait, last: now}
	check := func(due, little bool, confirmed, row lsn.LSN) {
		t.Helper()
		gotDue, gotLittle := m.due(confirmed, row, now, r)
		require.Equal(t, []bool{due, little}, []bool{gotDue, gotLittle})
	}
	check(false, false, 10000, 10000)
	check(true, false, 10001, 10001)
	check(false, false, 10001+postgres.CheckpointStep, 10000)
	now = now.Add(foreignInterval)
	check(true, false, 10001+postgres.CheckpointStep, 10000)
	now = now.Add(-foreignInterval)
	check(false, true, 10000+postgres.CheckpointStep, 10000)

	writes, hour := 0, now.Add(time.Hour)
	for confirmed := lsn.LSN(10200); now.Before(hour); now = now.Add(checkpointInterval) {
		if due, little := m.due(confirmed, 10000, now, r); due {
			m.stored.Store(uint64(confirmed))
			r.stored(now, little)
			confirmed += 200 // what was written down, and a running-xacts record
			writes++
		}
	}
	require.Equal(t, 9, writes, "in an hour in which nothing happens: after 4, 12, 28, ... 2044 s")
	kept := lsn.LSN(m.stored.Load())
	check(true, false, kept+1, kept+1)
	r.stored(now, false)
	check(false, true, kept+100, kept)
	now = now.Add(quietWait)
	check(true, true, kept+100, kept)
}
