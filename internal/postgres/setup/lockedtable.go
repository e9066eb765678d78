package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// lockPatience is after how long reading the state checks whether a lock keeps it waiting.
const lockPatience = 3 * time.Second

// readStateUnlessLocked is readState for the commands that an operator runs when something is wrong: a table that
// another session has locked is an answer, and the commands must not wait for its end.
func (s servers) readStateUnlessLocked(ctx context.Context, cfg Config) (state, error) {
	limited, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	st, err := s.readState(limited, cfg)
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return st, err
	}
	conn := s.primary
	if conn == nil {
		conn = s.Conn
	}
	tables := append([]identifier.Table{cfg.Checkpoint, cfg.Decisions}, cfg.Tables...)
	if by, lerr := postgres.LookupBlocker(ctx, conn, tables...); lerr == nil && by != nil {
		return st, (&fault.Error{
			Kind: fault.Operator, Object: "table " + by.Table, Err: fmt.Errorf("it is locked by %s", by),
		}).With(by.Remedy())
	}
	return s.readState(ctx, cfg) // far away, or slow
}
