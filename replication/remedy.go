package replication

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// remedy is what an SQLSTATE asks for (Postgres docs, appendix A). Before the slot is touched the same codes mean
// something else, an unknown parameter in postgres.dsn for one (42704), and no remedy may drop a slot for that.
func (c *Config) remedy(p phase, code string) string {
	beforeSlot := p == duringConnect || p == duringQuery
	switch {
	case strings.HasPrefix(code, "28"):
		return sqlstate.LoginRemedy
	case code == sqlstate.NotPermitted:
		return c.replicationRemedy()
	case p == duringConnect && code == sqlstate.UndefinedObject:
		return "Take the parameter out of postgres.dsn, or correct its name."
	case beforeSlot:
		return ""
	}
	switch code {
	case sqlstate.UndefinedObject:
		return "-- the publication is looked up as it was when the rows were written: creating it now does not fix " +
			"this slot\n" +
			c.objects().RenewBothSQL(postgres.ServerFacts{}, false)
	case "58P01": // a removed WAL file
		return c.objects().SlotInvalidated(postgres.Slot{}, postgres.ServerFacts{}).Remedy
	case "55000":
		return "`cdc-outbox check` reports whether wal_level is too low or the slot is invalidated, and prints the " +
			"SQL that fixes it."
	case "22021", "22P05": // a value in a database of SQL_ASCII that is not UTF-8; a character that UTF-8 does not have
		return c.encodingRemedy()
	}
	return ""
}

func (c *Config) replicationRemedy() string {
	if dsn, err := c.DSN(); err == nil {
		if parsed, err := pgx.ParseConfig(dsn); err == nil {
			return cloud.Plain.Replication(parsed.User, identifier.Quote(parsed.User)) +
				"\n-- on a managed service it may go another way: `cdc-outbox check` knows"
		}
	}
	return "Give the role in postgres.dsn the attribute REPLICATION."
}

// encodingRemedy: the log holds the value as it was written, so no correction of the row brings the stream past it.
func (c *Config) encodingRemedy() string {
	where := "the outbox"
	if len(c.Tables) == 1 {
		where = "table " + c.Tables[0].String()
	}
	return "-- A row of " + where + ", written at this LSN, holds a text that cannot be sent as UTF-8, and the log " +
		"keeps it as it is. Correct it in the table,\n" +
		"-- pass over its transaction, and publish from the table what was passed over. At a quiet moment, LSN being " +
		"what pg_current_wal_lsn() says:\n" +
		"cdc-outbox slot advance --to LSN --yes-lose-events\ncdc-outbox run  # as usual, then in another " +
		"terminal\ncdc-outbox repair"
}
