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
	t.Run("a session", func(t *testing.T) {
		b := newBed(t)
		stranger := connect(t, b.db)
		_, err := stranger.Exec(t.Context(), lockLanes("pg_advisory_lock"))
		require.NoError(t, err)
		pid := stranger.PgConn().PID()
		lockedLanesAreNamed(b, fmt.Sprintf("by pid %d (", pid),
			fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", pid))
	})
	t.Run("a prepared transaction", func(t *testing.T) {
		b := newBed(t)
		stranger := connect(t, b.db)
		gid := b.db.Name
		for _, sql := range []string{
			"BEGIN", lockLanes("pg_advisory_xact_lock"), "SELECT pg_current_xact_id()",
			"PREPARE TRANSACTION '" + gid + "'",
		} {
			_, err := stranger.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
		lockedLanesAreNamed(b, `by prepared transaction "`+gid+`"`, "ROLLBACK PREPARED '"+gid+"';",
			"COMMIT PREPARED '"+gid+"';")
	})
}

func lockLanes(function string) string {
	return fmt.Sprintf("SELECT %s(%d, l) FROM generate_series(0, %d) l", function, lockClass(theTable), Lanes-1)
}

// lockedLanesAreNamed runs a relay beside a stranger that holds the locks, and ends the stranger as the remedy says.
func lockedLanesAreNamed(b *bed, by string, commands ...string) {
	x := b.prepare(func(c *Config) { c.LookEvery = 20 * time.Millisecond })
	x.r.sources[0].locks.after = 200 * time.Millisecond
	x.run()
	x.await("ready: no row waits", func() bool { ready, _ := x.r.Ready(); return ready && x.r.latest.Load() != nil })

	b.insert(b.conn, "k", 1)
	x.await("not ready", func() bool { ready, _ := x.r.Ready(); return !ready })
	_, why := x.r.Ready()
	require.Contains(x, why, "table public.outbox: rows wait in 1 of 64 lanes whose locks")
	require.Contains(x, why, by)
	w := x.r.Status().Waits
	require.Len(x, w, 1)
	require.Equal(x, LanesLocked, w[0].Kind)
	require.Equal(x, commands, w[0].Commands)
	_, err := b.conn.Exec(x.Context(), w[0].Commands[0])
	require.NoError(x, err)
	x.await("ready", func() bool { ready, _ := x.r.Ready(); return ready })
	x.await("all is published", func() bool { return b.unpublished() == 0 })
	require.Empty(x, x.r.Status().Waits)
	require.NoError(x, x.finish())
	require.Equal(x, 1, x.logs.FilterMessage("rows wait in lanes that another program has locked").Len())
}
