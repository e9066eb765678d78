package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LookupAdvisory returns the session that has the advisory lock whose key is the hash of words, nil for none. Any role
// may take any such lock.
func LookupAdvisory(ctx context.Context, q Querier, words string) (*Blocker, error) {
	var b Blocker
	var seconds float64
	err := q.QueryRow(ctx, `SELECT l.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''),
			coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), -1)::float8
		FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
		WHERE l.granted AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
			AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
			AND ((l.classid::bigint << 32) | l.objid::bigint) = pg_catalog.hashtextextended($1::text, 0::bigint)
		LIMIT 1`,
		words).Scan(&b.PID, &b.User, &b.Application, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read locks: %w", err)
	}
	b.Age = time.Duration(seconds * float64(time.Second))
	return &b, nil
}
