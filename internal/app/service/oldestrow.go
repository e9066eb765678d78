package service

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// oldestRowWait bounds the query of a table, which without an index on the column is read whole.
const oldestRowWait = 3 * time.Second

// oldestRow is the time of the oldest row in the tables, zero if that is not known soon. Other checks report faults of
// a table.
func oldestRow(ctx context.Context, db wiring.Target) (oldest time.Time) {
	column := db.Admin.Columns.Timestamp
	if column == "" || len(db.Admin.Tables) == 0 {
		return oldest
	}
	ctx, cancel := context.WithTimeout(ctx, oldestRowWait)
	defer cancel()
	conn, err := postgres.Connect(ctx, db.DSN, "cdc-outbox check")
	if err != nil {
		return oldest
	}
	defer postgres.CloseConn(conn)
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET TimeZone TO UTC; SET statement_timeout TO %d",
		oldestRowWait.Milliseconds())); err != nil {
		return oldest
	}
	for _, table := range db.Admin.Tables {
		var seconds *float64
		err := conn.QueryRow(ctx, fmt.Sprintf("SELECT extract(epoch FROM min(%[1]s)::timestamptz)::float8 FROM %[2]s "+
			"WHERE %[1]s > '-infinity'", identifier.Quote(column), table.SQL())).Scan(&seconds)
		if err != nil || seconds == nil || math.IsInf(*seconds, 0) {
			continue
		}
		if at := time.UnixMilli(int64(*seconds * 1000)); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}
