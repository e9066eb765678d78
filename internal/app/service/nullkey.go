package service

import (
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/check"
)

// nullKey is the first column of a table that becomes a record's key and may be NULL. Of the routers only Debezium's
// makes a record without a key of that; to the others the row is bad, whatever its topic is. Other checks report faults
// of a table.
func nullKey(ctx context.Context, c *config.Loaded, db wiring.Target) (none check.NullKey) {
	if c.Router.Preset != config.PresetDebezium {
		return none
	}
	conn, err := postgres.Connect(ctx, db.DSN, "cdc-outbox check")
	if err != nil {
		return none
	}
	defer postgres.CloseConn(conn)
	for _, table := range db.Admin.Tables {
		info, err := postgres.LookupTable(ctx, conn, table)
		if err != nil {
			return none
		}
		column, ok := info.Column(c.Router.Debezium.Columns.Key)
		if ok && !column.NotNull {
			name := identifier.Quote(column.Name)
			return check.NullKey{
				Column: fmt.Sprintf("column %s of table %s", name, table),
				SQL:    fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;", table.SQL(), name),
			}
		}
	}
	return none
}
