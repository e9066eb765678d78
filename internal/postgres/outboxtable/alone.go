package outboxtable

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// Alone returns nil if no other live session has said the same words to this database, and otherwise that session.
func (r *Rows) Alone(ctx context.Context, words string) (*postgres.LockHolder, error) {
	const lock = "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1::text, 0::int8))"
	for range 2 { // a holder may end between the two questions
		var got bool
		if err := r.conn.QueryRow(ctx, lock, words).Scan(&got); err != nil {
			return nil, postgres.QueryFault("server", err)
		}
		if got {
			return nil, nil
		}
		if holder, err := postgres.LookupLockHolder(ctx, r.conn, words); holder != nil || err != nil {
			return holder, err
		}
	}
	return nil, &fault.Error{
		Kind: fault.Operator, Object: "server",
		Err:  errors.New("the advisory lock of " + words + " is held by a session that has ended twice meanwhile"),
		Next: "Run the command again.",
	}
}
