package polling

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// Every role may take any advisory lock of the database (Postgres docs 13.3.5), also that of a lane. A relay holds it
// for one transaction, of which the server ends each that is idle for as long as frozen. So a lock that the same
// transaction of the same session holds for twice that is another program's, and its lane waits for it.

// foreignAfter is how long a lock is held before its holder is taken for another program.
const foreignAfter = 2 * frozen

// LanesLocked is the kind of the wait for a session that holds the locks of lanes and is not a relay.
const LanesLocked = "lanes_locked"

// laneLock is a lock as it is compared with the one found before.
type laneLock struct {
	pid         int
	transaction string // virtual
}

// seenLock is one of them with the time since which it was seen.
type seenLock struct {
	laneLock
	since time.Time
}

// lockedLanes follows the locks of a table's lanes, for one goroutine.
type lockedLanes struct {
	after time.Duration // foreignAfter
	seen  map[int]seenLock
}

// note takes the locks that were found, by lane, and returns the lanes that other programs hold.
func (l *lockedLanes) note(found map[int]laneLock, now time.Time) (foreign []int) {
	next := map[int]seenLock{}
	for lane := range Lanes {
		lock, held := found[lane]
		if !held {
			continue
		}
		s := seenLock{lock, now}
		if before, ok := l.seen[lane]; ok && before.laneLock == lock {
			s.since = before.since
		}
		if next[lane] = s; now.Sub(s.since) >= l.after {
			foreign = append(foreign, lane)
		}
	}
	l.seen = next
	return foreign
}

// heldLocks lists the locks of lanes that are held.
func (s *statements) heldLocks() string {
	return fmt.Sprintf(`SELECT l.objid::int, coalesce(l.pid, 0), l.virtualtransaction, coalesce(a.usename, x.owner, ''),
			coalesce(a.application_name, ''), coalesce(x.gid, '')
		FROM pg_catalog.pg_locks l`+postgres.JoinHolder+`
		WHERE`+postgres.Held+`AND l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint = %d
		AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`,
		uint32(lockClass(s.table)))
}

// lookAtLocks notes whether rows wait in a lane that another program holds.
func (r *Relay) lookAtLocks(ctx context.Context, c *connection) {
	for _, s := range r.sources {
		wait := r.lockedBy(ctx, c, s, time.Now())
		was := s.locked.Swap(wait)
		if wait != nil && was == nil {
			r.log.Error("rows wait in lanes that another program has locked", zap.String(logkey.Object, wait.Object),
				zap.String(logkey.Reason, wait.Reason), zap.String(logkey.Next, wait.Next),
				zap.Strings(logkey.Commands, wait.Commands))
		}
		if wait == nil && was != nil {
			r.log.Info("the locked lanes are free again", zap.String(logkey.Object, was.Object))
		}
	}
}

func (r *Relay) lockedBy(ctx context.Context, c *connection, s *source, now time.Time) *fault.Wait {
	found, holders := map[int]laneLock{}, map[int]*postgres.Blocker{}
	err := c.run(ctx, s.object(), s.begin+s.heldLocks()+"; COMMIT",
		func(_ []pgconn.FieldDescription, v [][]byte) error {
			lane, _ := strconv.Atoi(string(v[0])) // of int4, so it cannot fail
			pid, _ := strconv.Atoi(string(v[1]))
			found[lane] = laneLock{pid, string(v[2])}
			holders[lane] = &postgres.Blocker{
				PID: pid, Prepared: string(v[5]), User: string(v[3]), Application: string(v[4]), Age: -1,
			}
			return nil
		})
	if err != nil {
		return s.locked.Load() // as it was; what Postgres lacks is reported elsewhere
	}
	foreign := slices.DeleteFunc(s.locks.note(found, now), s.lanes.has) // this process knows what its workers do
	if len(foreign) == 0 {
		return nil
	}
	var waiting []int
	err = c.run(ctx, s.object(), s.begin+s.look(foreign, Lanes)+"; COMMIT",
		func(_ []pgconn.FieldDescription, v [][]byte) error {
			lane, err := strconv.Atoi(string(v[0]))
			waiting = append(waiting, lane)
			return err
		})
	switch {
	case err != nil:
		return s.locked.Load()
	case len(waiting) == 0:
		return nil
	}
	holder, since := holders[waiting[0]], s.locks.seen[waiting[0]].since
	remedy := holder.Remedy()
	return &fault.Wait{
		Kind: LanesLocked, Object: s.object(), Since: since, Next: remedy.Next, Commands: remedy.Commands,
		Reason: fmt.Sprintf("rows wait in %d of %d lanes whose locks have been held for %s, longer than a relay does, "+
			"by %s", len(waiting), Lanes, human.Duration(now.Sub(since)), holder),
	}
}

// lockedLanes lists the tables with rows that wait for another program's locks.
func (r *Relay) lockedLanes() (all []fault.Wait) {
	for _, s := range r.sources {
		if w := s.locked.Load(); w != nil {
			all = append(all, *w)
		}
	}
	return all
}
