package polling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// PolledAt is the column's name once nothing is polled any more.
const PolledAt = "polled_at"

// endedMark begins the comment on the column that was renamed. It says so too if the column is renamed again.
const endedMark = "cdc-outbox migrate polling has ended polling of this table"

// ErrEnded is why nothing is polled: adding the column again would have every event published by polling and from the
// log.
var ErrEnded = errors.New("polling of this table was ended by `cdc-outbox migrate polling`")

// renamedColumn finds the column that was renamed.
func (t *tableState) renamedColumn(published string) (column string, yes bool) {
	if _, ok := t.column(published); ok {
		return "", false
	}
	for _, c := range t.Columns {
		if strings.HasPrefix(c.Comment, endedMark) || c.Name == PolledAt && strings.HasPrefix(c.Type, "timestamp") {
			return c.Name, true
		}
	}
	return "", false
}

func endedFault(t identifier.Table, published, column string) *fault.Error {
	return &fault.Error{
		Kind: fault.Operator, Object: "table " + t.String(),
		Err: fmt.Errorf("%w: %s is called %s now", ErrEnded, quoted(published), quoted(column)), Next: endedNext,
	}
}

const endedNext = "Run the configuration that reads the log (source: wal). Polling besides it would publish each " +
	"event twice. To poll instead: docs/migrating-from-polling.md, Roll back."

// Ended returns an error that wraps ErrEnded if `migrate polling` has ended polling of one of the tables.
func Ended(ctx context.Context, dsn string, s Setup) error {
	conn, err := s.connect(ctx, dsn, "cdc-outbox")
	if err != nil {
		return err
	}
	defer postgres.CloseConn(conn)
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, &s)
		if err != nil {
			return err
		}
		if column, yes := st.renamedColumn(s.Columns.Published); yes {
			return endedFault(t, s.Columns.Published, column)
		}
	}
	return nil
}

// orEnded says in the place of a missing column that polling is over, if it is.
func orEnded(ctx context.Context, cfg *Config, err error) error {
	if sqlstate.Of(err) != sqlstate.UndefinedColumn {
		return err
	}
	dsn, derr := cfg.DSN()
	if derr != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if over := Ended(ctx, dsn, cfg.setup()); errors.Is(over, ErrEnded) {
		return over
	}
	return err
}
