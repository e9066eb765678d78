package postgres

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/password"
)

// unset reports whether the DSN says nothing of a server.
func unset(dsn string) bool { return dsn == "" || password.Only(dsn) }

// leading are the variables of libpq that are set and say where the server is, or which database.
func leading() []string {
	all := []string{"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE", "PGSERVICEFILE"}
	return slices.DeleteFunc(all, func(name string) bool { return os.Getenv(name) == "" })
}

// CheckEnvironment says where libpq's variables lead, if postgres.dsn is not set and they lead anywhere.
func CheckEnvironment(dsn string) []preflight.Finding {
	names := leading()
	if !unset(dsn) || len(names) == 0 {
		return nil
	}
	pc, err := ParseConfig(dsn)
	if err != nil {
		return nil // the connection says so
	}
	f := preflight.Finding{
		Level: preflight.OK, Subject: "postgres.dsn",
		Found: fmt.Sprintf("It is not set; %s of the environment led to database %q of %s, as role %q.",
			strings.Join(names, ", "), cmp.Or(pc.Database, pc.User),
			strings.TrimPrefix(serverName(pc), "postgres "), pc.User),
	}
	if !slices.Contains(names, "PGDATABASE") && !slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "PGSERVICE")
	}) {
		f.Level = preflight.Warn
		f.Why = "None of them names the database, so libpq's rule applies: it has the name of the role."
		f.Remedy = "Set postgres.dsn, or PGDATABASE."
	}
	return []preflight.Finding{f}
}
