package replication

import (
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// remedy is the remedy for an SQLSTATE (Postgres docs, appendix A). Before the slot is touched the same codes mean
// something else, an unknown parameter in postgres.dsn for one (42704), and no remedy may drop a slot for that.
func (c *Config) remedy(p phase, code string) fault.Remedy {
	if limit := postgres.LimitOf(code); limit != "" {
		return postgres.LimitRemedy(c.user(), limit)
	}
	beforeSlot := p == duringConnect || p == duringQuery
	switch {
	case strings.HasPrefix(code, "28"):
		return postgres.LoginRemedy(c.user(), code)
	case code == sqlstate.NotPermitted:
		return c.replicationRemedy()
	case p == duringConnect && code == sqlstate.UndefinedObject:
		return fault.Do("Take the parameter out of postgres.dsn, or correct its name.")
	case beforeSlot:
		return fault.Remedy{}
	}
	switch code {
	case sqlstate.UndefinedObject:
		return fault.Do("The publication is looked up as it was when the rows were written: creating it now does " +
			"not fix this slot.").Then(c.objects().RenewBoth(postgres.ServerFacts{}, false))
	case "58P01": // a removed WAL file
		return c.objects().SlotInvalidated(postgres.Slot{}, postgres.ServerFacts{}).ToDo()
	case "55000":
		return fault.Do("See whether wal_level is too low or the slot is invalidated; check prints the commands "+
			"that fix it.",
			"cdc-outbox check")
	case "22021", "22P05": // a value in a database of SQL_ASCII that is not UTF-8; a character that UTF-8 does not have
		return c.encodingRemedy()
	}
	return fault.Remedy{}
}

func (c *Config) replicationRemedy() fault.Remedy {
	if user := c.user(); user != "" {
		return cloud.Plain.Replication(user, identifier.Quote(user)).
			Then(fault.Do("A managed service may need another command: `cdc-outbox check` prints it."))
	}
	return fault.Do("Give the role in postgres.dsn the attribute REPLICATION.")
}

// user is the role in postgres.dsn, empty if the connection string cannot be had.
func (c *Config) user() string {
	if dsn, err := c.DSN(); err == nil {
		if parsed, err := postgres.ParseConfig(dsn); err == nil {
			return parsed.User
		}
	}
	return ""
}

// encodingRemedy is for a text that is not UTF-8.
func (c *Config) encodingRemedy() fault.Remedy {
	return c.rowRemedy("holds a text that cannot be sent as UTF-8")
}

// rowRemedy: the log holds the value as it was written, so no correction of the row brings the stream past it.
func (c *Config) rowRemedy(what string) fault.Remedy {
	where := "the outbox"
	if len(c.Tables) == 1 {
		where = "table " + c.Tables[0].String()
	}
	return fault.Do("A row of "+where+", written at this LSN, "+what+", and the log keeps it as it is. "+
		"Correct the row in the table. At a quiet moment pass over its transaction, LSN being what "+
		"pg_current_wal_lsn() returns; then "+
		"start the connector as usual, and publish from the table what was passed over.",
		"cdc-outbox slot advance --to LSN --yes-lose-events", "cdc-outbox repair")
}
