package replication

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// rule is what an SQLSTATE, or a class of them by its first two characters, asks for (Postgres docs, appendix A).
type rule struct {
	code string
	kind fault.Kind
	next func(c *Config) string // nil: nothing to do, or nothing known
}

// rules are searched in order. What is not here ends the process: an error nobody has thought about must not be
// retried for ever behind somebody's back.
var rules = []rule{
	{"28", fault.Operator, nextLogin}, // Retry once a login has worked: passwords rotate on both sides, not at once
	{"3D000", fault.Operator, nil},
	{"42501", fault.Operator, nextReplicationRole},
	{"42704", fault.Operator, nextUndefined},
	{"42602", fault.Config, nil}, // illegal slot name
	{"58P01", fault.Operator, nextRemovedWAL},
	{"55000", fault.Operator, nextUnusableSlot},
	{"54", fault.Operator, nil}, // a row that does not fit into a message
	{"0A", fault.Operator, nil},
	{"22021", fault.Operator, nextEncoding}, // a value in a database of SQL_ASCII that is not UTF-8
	{"22P05", fault.Operator, nextEncoding}, // a character that UTF-8 does not have
	{"22", fault.Operator, nil},
	{"42", fault.Operator, nil},
	{"55006", fault.Retry, nil}, // another session holds the slot
	{"08", fault.Retry, nil},
	{"25006", fault.Operator, nil}, // default_transaction_read_only, which stays
	{"25", fault.Retry, nil},
	{"40", fault.Retry, nil}, // a standby's recovery got in the way
	{"53", fault.Retry, nil}, // connections, memory, disk
	{"55", fault.Retry, nil},
	{"57", fault.Retry, nil},    // shut down, starting up, terminated
	{"58", fault.Retry, nil},    // I/O
	{"XX000", fault.Retry, nil}, // among them passing trouble with reading WAL
}

func findRule(code string) rule {
	for _, r := range rules {
		if code == r.code || len(r.code) == 2 && strings.HasPrefix(code, r.code) {
			return r
		}
	}
	return rule{code: code, kind: fault.Fatal}
}

func nextLogin(*Config) string {
	return "Set user and password in postgres.dsn; see that pg_hba.conf has a line for this role, database and host (a walsender with a database matches the database's name)."
}

func nextReplicationRole(c *Config) string {
	if dsn, err := c.DSN(); err == nil {
		if parsed, err := pgx.ParseConfig(dsn); err == nil {
			return replicationGrant(serverInfo{User: parsed.User}) + "\n-- on a managed service it may go another way: `cdc-outbox check` knows"
		}
	}
	return "Give the role in postgres.dsn the attribute REPLICATION."
}

func nextUndefined(c *Config) string {
	return "-- the publication is looked up as it was when the rows were written: creating it now does not mend this slot\n" +
		publicationLost(c.admin(), setupState{}).Remedy
}

// nextEncoding: the log holds the value as it was written, so no correction of the row brings the stream past it.
func nextEncoding(c *Config) string {
	where := "the outbox"
	if len(c.Tables) == 1 {
		where = "table " + c.Tables[0].String()
	}
	return "-- A row of " + where + ", written at this LSN, holds a text that cannot be sent as UTF-8, and the log keeps it as it is. Correct it in the table,\n" +
		"-- pass over its transaction, and publish from the table what was passed over. At a quiet moment, LSN being what pg_current_wal_lsn() says:\n" +
		"cdc-outbox slot advance --to LSN --yes-lose-events\ncdc-outbox run  # as usual, then in another terminal\ncdc-outbox repair"
}

func nextRemovedWAL(c *Config) string { return slotInvalidated(c.admin(), setupState{}).Remedy }

func nextUnusableSlot(*Config) string {
	return "`cdc-outbox check` says whether wal_level is too low or the slot is invalidated, and prints the SQL that mends it."
}
