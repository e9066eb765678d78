package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LockHolder is the session, or the prepared transaction, that holds an advisory lock. Any role may take one, whatever
// it is for.
type LockHolder struct {
	Blocker               // the age is unknown
	Waits   bool          // it waits for a lock itself
	Since   time.Duration // in its present state; below 0 where the connected role may not see it
}

// lockHolderSQL is for locks on one number, the hash of words.
const lockHolderSQL = `
SELECT coalesce(l.pid, 0), coalesce(x.gid, ''), coalesce(a.usename, x.owner, ''), coalesce(a.application_name, ''),
       coalesce(a.wait_event_type, '') = 'Lock',
       coalesce(extract(epoch FROM clock_timestamp() - coalesce(a.state_change, x.prepared)), -1)::float8
  FROM pg_catalog.pg_locks l` + JoinHolder + `
 WHERE` + Held + `AND l.locktype = 'advisory' AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND ((l.classid::bigint << 32) | l.objid::bigint) = pg_catalog.hashtextextended($1::text, 0::bigint)`

// LookupLockHolder returns the session that holds the lock of these words; nil if none does.
func LookupLockHolder(ctx context.Context, q Querier, words string) (*LockHolder, error) {
	h := &LockHolder{Blocker: Blocker{Age: -1}}
	var seconds float64
	err := q.QueryRow(ctx, lockHolderSQL, words).Scan(&h.PID, &h.Prepared, &h.User, &h.Application, &h.Waits, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read locks: %w", err)
	}
	h.Since = time.Duration(seconds * float64(time.Second))
	return h, nil
}
