package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Blocker is the session whose lock keeps others from a table.
type Blocker struct {
	Table       string
	PID         int
	User        string
	Application string
	Age         time.Duration // of its transaction; below 0 where the connected role may not see it
}

// blockerSQL: a lock of a reader keeps no writer out. The strongest lock comes first, then the oldest transaction.
const blockerSQL = `SELECT l.relation::regclass::text, l.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''),
		coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), -1)::float8
	FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
	WHERE l.granted AND l.locktype = 'relation' AND l.pid <> pg_backend_pid() AND l.mode <> 'AccessShareLock'
		AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
		AND l.relation = ANY (SELECT to_regclass(t)::oid FROM unnest($1::text[]) t)
	ORDER BY l.mode IN ('AccessExclusiveLock', 'ExclusiveLock') DESC, l.mode LIKE 'Share%Lock' DESC, a.xact_start
	LIMIT 1`

// LookupBlocker returns the session that keeps others from the tables, nil where none does.
func LookupBlocker(ctx context.Context, q Querier, tables ...identifier.Table) (*Blocker, error) {
	var names []string
	for _, t := range tables {
		if t.Name != "" {
			names = append(names, t.SQL())
		}
	}
	var b Blocker
	var seconds float64
	err := q.QueryRow(ctx, blockerSQL, names).Scan(&b.Table, &b.PID, &b.User, &b.Application, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read locks: %w", err)
	}
	b.Age = time.Duration(seconds * float64(time.Second))
	return &b, nil
}

// LookupWaiters returns how many sessions wait for a lock on the tables.
func LookupWaiters(ctx context.Context, q Querier, tables ...identifier.Table) (n int, err error) {
	var names []string
	for _, t := range tables {
		names = append(names, t.SQL())
	}
	err = q.QueryRow(ctx, `SELECT count(DISTINCT l.pid) FROM pg_catalog.pg_locks l
		WHERE NOT l.granted AND l.locktype = 'relation'
		AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
		AND l.relation = ANY (SELECT to_regclass(t)::oid FROM unnest($1::text[]) t)`, names).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read locks: %w", err)
	}
	return n, nil
}

// String names the session without its query, which may hold data.
func (b *Blocker) String() string {
	s := fmt.Sprintf("pid %d", b.PID)
	if b.User != "" || b.Application != "" {
		s += fmt.Sprintf(" (%s, application %q)", b.User, b.Application)
	}
	if b.Age >= 0 {
		s += ", in a transaction for " + human.Duration(b.Age)
	}
	return s
}

// End is the statement that ends the session.
func (b *Blocker) End() string {
	return fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", b.PID)
}

// Remedy ends the session.
func (b *Blocker) Remedy() fault.Remedy {
	return fault.Do("Let its transaction end, or end its session.", b.End())
}

// Blocked is the error of a statement that waited for the lock of another session until its time was over.
type Blocked struct {
	By  *Blocker
	Err error
}

func (b *Blocked) Error() string { return fmt.Sprintf("the table is locked by %s", b.By) }
func (b *Blocked) Unwrap() error { return b.Err }
