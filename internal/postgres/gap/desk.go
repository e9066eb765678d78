package gap

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// Desk is the table for commands, with the connection string of the server that is written.
type Desk struct {
	Table Table
	DSN   func() (string, error)
}

// patience bounds each question of a command.
const patience = 10 * time.Second

// Open lists the open gaps, the oldest first; none if there is no table.
func (d Desk) Open(ctx context.Context) (open []Gap, err error) {
	if d.Table.Name.Name == "" {
		return nil, nil
	}
	err = d.with(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		open, err = d.Table.Open(ctx, conn)
		return err
	})
	return open, err
}

// OfSlots lists the open gaps of every slot of the database, by slot; none if there is no table.
func (d Desk) OfSlots(ctx context.Context) (all map[string][]Gap, err error) {
	if d.Table.Name.Name == "" {
		return nil, nil
	}
	err = d.with(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		all, err = d.Table.OfSlots(ctx, conn)
		return err
	})
	return all, err
}

// Settle settles the gaps that do not last any more.
func (d Desk) Settle(ctx context.Context, gaps []Gap, missing, published int64) error {
	ids := make([]int64, 0, len(gaps))
	for i := range gaps {
		ids = append(ids, gaps[i].ID)
	}
	return d.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return d.Table.Settle(ctx, conn, ids, missing, published)
	})
}

// Dismiss settles a gap by decision.
func (d Desk) Dismiss(ctx context.Context, id int64, reason string) error {
	if d.Table.Name.Name == "" {
		return &fault.Error{
			Kind: fault.Config, Object: "postgres.checkpoint", Err: errors.New("it is off, so gaps are kept nowhere"),
		}
	}
	return d.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return d.Table.Dismiss(ctx, conn, id, reason)
	})
}

func (d Desk) with(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dsn, err := d.DSN()
	if err != nil {
		return err
	}
	conn, err := postgres.Connect(ctx, dsn, "cdc-outbox gaps")
	if err != nil {
		return err
	}
	defer postgres.CloseConn(conn)
	if err = do(ctx, conn); err != nil {
		return postgres.QueryFault("table "+d.Table.Name.String(), err)
	}
	return nil
}
