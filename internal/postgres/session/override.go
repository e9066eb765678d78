package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// An operator sets limits for the applications of a server, a database or a role. In a session of the relay such a
// limit ends what cannot be begun again from where it was: a stream is ended within a transaction and gets the whole
// transaction again. So each session overrides them. Settings that a server does not have are left out, and a startup
// packet would not allow that: transaction_timeout came with 17.

// Ordinary are the values of a session that runs SQL. lock_timeout is left as it is, because it protects applications
// from a statement that waits for a table's lock, and so is default_transaction_read_only, by which an operator says
// that nothing is to be changed here: what must be written regardless, the checkpoint, says so in its startup packet.
func Ordinary() map[string]string {
	return map[string]string{
		"transaction_timeout": "0", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0",
		"idle_session_timeout":          "0",
		"default_transaction_isolation": "read committed", "default_transaction_deferrable": "off",
		"row_security": "off", // a query that a policy would filter fails: the stream has every row
	}
}

// streaming adds what matters to the stream. While the window is full the relay reads nothing, and the kernel counts
// that time, too, for tcp_user_timeout (tcp(7): "due to zero window size").
func streaming() map[string]string {
	settings := Ordinary()
	settings["lock_timeout"], settings["tcp_user_timeout"] = "0", "0"
	return settings
}

// StreamOverrides is a scalar subquery that sets what the stream needs for its session, and counts what it has set. It
// overrides what postgres.dsn says as well.
var StreamOverrides = overrides(streaming(), "")

// overrides compares before it sets: the setting of a role that may not be changed any more is not touched where it is
// right already.
func overrides(settings map[string]string, where string) string {
	return fmt.Sprintf(`(SELECT pg_catalog.count(pg_catalog.set_config(s.name, w.value, false))
		FROM pg_catalog.pg_settings s JOIN (VALUES %s) AS w(name, value) ON w.name OPERATOR(pg_catalog.=) s.name
		WHERE s.setting OPERATOR(pg_catalog.<>) w.value%s)`, values(settings), where)
}

func values(settings map[string]string) string {
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		rows = append(rows, "("+identifier.QuoteLiteral(name)+", "+identifier.QuoteLiteral(settings[name])+")")
	}
	return strings.Join(rows, ", ")
}

// Override gives a session that runs SQL the search path of Pin, and the values of Ordinary except where its connection
// string has others. Where another backend answers than the login named, a pooler is in between and lends the backend
// to other applications: there nothing is set, and Limits finds what remains.
func Override(ctx context.Context, conn *pgconn.PgConn) error {
	where := " AND s.source OPERATOR(pg_catalog.<>) 'client' AND " + ownBackend(conn)
	_, err := conn.Exec(ctx, "SELECT "+pin(conn)+", "+overrides(Ordinary(), where)).ReadAll()
	return err
}

// SearchPath is that of every session: names without a schema mean the server's own functions, operators and types. By
// the path of the role or the database, a function that another role has made in a schema there can be nearer, or have
// an argument that fits better, and it would run with the rights of this session (CVE-2018-1058).
const SearchPath = "pg_catalog"

// Pin sets the search path of a session that Override is not for. It does nothing to a backend that a pooler lends out.
func Pin(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := conn.Exec(ctx, "SELECT "+pin(conn)).ReadAll()
	return err
}

// pin is a scalar subquery.
func pin(conn *pgconn.PgConn) string {
	return "(SELECT pg_catalog.set_config('search_path', '" + SearchPath + "', false) WHERE " + ownBackend(conn) + ")"
}

// ownBackend is true if the backend that answers is the backend that took the login.
func ownBackend(conn *pgconn.PgConn) string {
	return fmt.Sprintf("pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %d", conn.PID())
}

// Wanted are the values that every session would have: Ordinary, and no default of being read-only.
func Wanted() map[string]string {
	settings := Ordinary()
	settings["default_transaction_read_only"] = "off"
	return settings
}

// Limits is a scalar subquery that lists, in JSON, the settings of Wanted that are not in force in the session and that
// its connection string does not ask for: name, value, and where it is from.
var Limits = `(SELECT coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'value', s.setting || coalesce(s.unit, ''),
	'source', s.source) ORDER BY s.name), '[]') FROM pg_catalog.pg_settings s
	JOIN (VALUES ` + values(Wanted()) + `) AS w(name, value) ON w.name = s.name
	WHERE s.setting <> w.value AND s.source <> 'client')`
