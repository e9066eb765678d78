package pooler

import (
	"context"
	"net"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/jackc/pgx/v5/pgconn"
)

// askConsoles asks the poolers' administration databases who they are. PgBouncer and PgCat have "pgbouncer", Odyssey
// "console"; a user without rights there gets an error that a server does not send: to a server the name is not a
// database (3D000).
func (w *Route) askConsoles(ctx context.Context, host *pgconn.Config) {
	for _, database := range []string{"pgbouncer", "console"} {
		pc := ordinary(host, database)
		for name := range pc.RuntimeParams {
			if name != "application_name" {
				delete(pc.RuntimeParams, name)
			}
		}
		conn, err := pgconn.ConnectConfig(ctx, pc)
		if pg := sqlstate.RefusalOf(err); pg != nil {
			if database == "pgbouncer" && pg.Code == "08P01" && pg.Message == "not allowed" {
				w.Product = pgBouncer
				return
			}
			continue
		}
		if err != nil {
			continue
		}
		w.Product = consoleProduct(ctx, conn)
		if w.Product != "" {
			w.Behind = consoleTarget(ctx, conn, host.Database)
		}
		login.Hangup(conn)
		if w.Product != "" {
			return
		}
	}
}

// consoleProduct takes only a name that is known: another answer is not a pooler's console.
func consoleProduct(ctx context.Context, conn *pgconn.PgConn) string {
	row, err := oneRow(ctx, conn, "SHOW VERSION", 1)
	if err != nil {
		return ""
	}
	for _, known := range []string{pgBouncer, pgCat, odyssey} {
		if text := string(row[0]); strings.HasPrefix(strings.ToLower(text), strings.ToLower(known)) {
			return named(known, text[len(known):])
		}
	}
	return ""
}

// addressRunes are what host names and addresses consist of: what a console says is shown in a remedy.
const addressRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"

// consoleTarget reads from SHOW DATABASES where the pooler takes a database from. Its columns vary with the version.
func consoleTarget(ctx context.Context, conn *pgconn.PgConn, database string) string {
	results, err := conn.Exec(ctx, "SHOW DATABASES").ReadAll()
	if err != nil || len(results) != 1 {
		return ""
	}
	at := map[string]int{}
	for i, f := range results[0].FieldDescriptions {
		at[f.Name] = i
	}
	for _, row := range results[0].Rows {
		get := func(column string) string {
			if i, ok := at[column]; ok && i < len(row) {
				return string(row[i])
			}
			return ""
		}
		if get("name") == database && get("host") != "" && get("port") != "" {
			if host := get("host"); strings.Trim(host, addressRunes) == "" &&
				strings.Trim(get("port"), "0123456789") == "" {
				return net.JoinHostPort(host, get("port"))
			}
		}
	}
	return ""
}

// askPgpool uses a command that Pgpool-II answers itself. To a server it is an unknown parameter, and a line in its
// log, so only a connection that the server sees come from elsewhere is asked. Pgpool-II hands on the server's own pid.
func (w *Route) askPgpool(ctx context.Context, conn *pgconn.PgConn) {
	if row, err := oneRow(ctx, conn, "SHOW pool_version", 1); err == nil {
		w.Product = named(pgpool, string(row[0]))
	}
}

// named adds the version that a text begins with, and nothing else of it.
func named(product, text string) string {
	version := strings.TrimSpace(text)
	if i := strings.IndexFunc(version, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }); i >= 0 {
		version = version[:i]
	}
	return strings.TrimSpace(product + " " + version[:min(len(version), 20)])
}
