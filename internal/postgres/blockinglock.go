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

// Blocker is the session, or the prepared transaction, whose lock keeps others from a table.
type Blocker struct {
	Table       string
	PID         int    // 0: of a prepared transaction, which has no session
	Prepared    string // its gid
	User        string
	Application string
	Age         time.Duration // of its transaction; below 0 where the connected role may not see it
}

// JoinHolder joins to a lock l of pg_locks the session a that holds it, or the prepared transaction x. The latter's
// locks have no pid; with the lock on its own id they have the virtual one in common, whichever that is.
const JoinHolder = ` LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
	LEFT JOIN pg_catalog.pg_locks own ON l.pid IS NULL AND own.locktype = 'transactionid'
		AND own.virtualtransaction = l.virtualtransaction
	LEFT JOIN pg_catalog.pg_prepared_xacts x ON x.transaction = own.transactionid `

// Held is the condition of a lock whose holder JoinHolder has found: one may end between the views.
const Held = ` l.granted AND coalesce(l.pid::text, x.gid) IS NOT NULL `

// blockerSQL: a lock of a reader keeps no writer out. The strongest lock comes first, then the oldest transaction.
const blockerSQL = `SELECT l.relation::regclass::text, coalesce(l.pid, 0), coalesce(x.gid, ''),
		coalesce(a.usename, x.owner, ''), coalesce(a.application_name, ''),
		coalesce(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, x.prepared)), -1)::float8
	FROM pg_catalog.pg_locks l` + JoinHolder + `
	WHERE` + Held + `AND l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
		AND l.mode <> 'AccessShareLock'
		AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
		AND l.relation = ANY (SELECT to_regclass(t)::oid FROM unnest($1::text[]) t)
	ORDER BY l.mode IN ('AccessExclusiveLock', 'ExclusiveLock') DESC, l.mode LIKE 'Share%Lock' DESC,
		coalesce(a.xact_start, x.prepared)
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
	err := q.QueryRow(ctx, blockerSQL, names).Scan(&b.Table, &b.PID, &b.Prepared, &b.User, &b.Application,
		&seconds)
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
	if b.PID == 0 {
		s = fmt.Sprintf("prepared transaction %q", b.Prepared)
		if b.Age >= 0 {
			s += ", open for " + human.Duration(b.Age)
		}
		return s
	}
	if b.User != "" || b.Application != "" {
		s += fmt.Sprintf(" (%s, application %q)", b.User, b.Application)
	}
	if b.Age >= 0 {
		s += ", in a transaction for " + human.Duration(b.Age)
	}
	return s
}

// End is the statement that ends the session, or the prepared transaction.
func (b *Blocker) End() string {
	if b.PID == 0 {
		return EndPrepared(b.Prepared)[0]
	}
	return fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", b.PID)
}

// Remedy ends the session, or the prepared transaction.
func (b *Blocker) Remedy() fault.Remedy {
	if b.PID == 0 {
		return fault.Do("Roll it back or commit it, as its coordinator has decided.", EndPrepared(b.Prepared)...)
	}
	return fault.Do("Let its transaction end, or end its session.", b.End())
}

// EndPrepared are the two statements of which one ends a prepared transaction.
func EndPrepared(gid string) []string {
	literal := identifier.QuoteLiteral(gid)
	return []string{"ROLLBACK PREPARED " + literal + ";", "COMMIT PREPARED " + literal + ";"}
}

// Blocked is the error of a statement that waited for the lock of another session until its time was over.
type Blocked struct {
	By  *Blocker
	Err error
}

func (b *Blocked) Error() string { return fmt.Sprintf("the table is locked by %s", b.By) }
func (b *Blocked) Unwrap() error { return b.Err }
