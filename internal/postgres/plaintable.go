package postgres

import (
	"context"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// IsTable reports whether the name is a table, and one that runs nothing of its owner's when it is read: a view, or a
// policy of row security, calls functions with the rights of the session. It is for a command that reads a table of
// ours in a database that may never have been set up: to read one that does not exist would be an error in the server's
// log.
func IsTable(ctx context.Context, q Querier, name identifier.Table) (is bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class
		WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1::pg_catalog.text)
		AND relkind OPERATOR(pg_catalog.=) 'r' AND NOT relrowsecurity)`, name.SQL()).Scan(&is)
	return is, err
}
