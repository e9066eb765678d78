package polling

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLockedLanesAreHeldByOneTransaction(t *testing.T) {
	l := lockedLanes{after: 20 * time.Second}
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	one := func(lane, pid int, transaction string) map[int]laneLock {
		return map[int]laneLock{lane: {pid, transaction}}
	}
	require.Empty(t, l.note(one(7, 100, "3/1"), at(0)))
	require.Empty(t, l.note(one(7, 100, "3/1"), at(19)))
	require.Equal(t, []int{7}, l.note(one(7, 100, "3/1"), at(20)))
	require.Empty(t, l.note(nil, at(21)))
	require.Empty(t, l.note(one(7, 100, "3/1"), at(41)), "it was free in between")
	require.Empty(t, l.note(one(7, 100, "3/2"), at(60)), "a relay that has claimed it again")
	require.Empty(t, l.note(one(7, 101, "3/2"), at(79)), "another session")
	require.Empty(t, l.note(one(8, 101, "3/2"), at(98)), "another lane")
}

// Bug (polling): A session of any role that held the advisory locks of lanes kept their rows from being published, and
// nothing said so but the age of the backlog. Cost: a ready relay that published nothing.
func TestLanesThatAnotherProgramHasLocked(t *testing.T) {
	b := newBed(t)
	x := b.prepare(func(c *Config) { c.LookEvery = 20 * time.Millisecond })
	x.r.sources[0].locks.after = 200 * time.Millisecond
	stranger := connect(t, b.db)
	_, err := stranger.Exec(t.Context(), fmt.Sprintf("SELECT pg_advisory_lock(%d, l) FROM generate_series(0, %d) l",
		lockClass(theTable), Lanes-1))
	require.NoError(t, err)
	x.run()
	x.await("ready: no row waits", func() bool { ready, _ := x.r.Ready(); return ready && x.r.latest.Load() != nil })

	b.insert(b.conn, "k", 1)
	x.await("not ready", func() bool { ready, _ := x.r.Ready(); return !ready })
	pid := stranger.PgConn().PID()
	_, why := x.r.Ready()
	require.Contains(t, why, "table public.outbox: rows wait in 1 of 64 lanes whose locks")
	require.Contains(t, why, fmt.Sprintf("by pid %d (", pid))
	w := x.r.Status().Waits
	require.Len(t, w, 1)
	require.Equal(t, LanesLocked, w[0].Kind)
	require.Equal(t, []string{fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", pid)}, w[0].Commands)
	_, err = b.conn.Exec(t.Context(), w[0].Commands[0])
	require.NoError(t, err)
	x.await("ready", func() bool { ready, _ := x.r.Ready(); return ready })
	x.await("all is published", func() bool { return b.unpublished() == 0 })
	require.Empty(t, x.r.Status().Waits)
	require.NoError(t, x.finish())
	require.Equal(t, 1, x.logs.FilterMessage("rows wait in lanes that another program has locked").Len())
}
