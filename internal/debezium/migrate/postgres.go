package migrate

import (
	"net"
	"net/url"
)

func password(m *migration, _, value string) outcome {
	m.notes["postgres.dsn"] = "This file does not contain the password: export PGPASSWORD, use ~/.pgpass, or put the " +
		"whole connection string into\na file and set dsn: \"@/run/secrets/postgres-dsn\"."
	if wholly.MatchString(value) {
		return outcome{Translated, "postgres.dsn", "Provide it in PGPASSWORD, in ~/.pgpass, or in a file with the " +
			"whole connection string (dsn: \"@/path\")."}
	}
	return outcome{Translated, "postgres.dsn", "Not copied: provide it in PGPASSWORD, in ~/.pgpass, or in a file " +
		"with the whole connection string (dsn: \"@/path\"). The input contains it in clear text."}
}

// postgres builds the connection string, without the password, and names slot, publication and tables.
func (m *migration) postgres() {
	for key, name := range map[string]string{"postgres.slot": m.slot, "postgres.publication": m.pub} {
		if !unresolved(name) {
			m.out.set(key, name)
		}
	}
	m.out.set("postgres.setup", "never")
	m.notes["postgres.setup"] = "Slot and publication are Debezium's: if one is missing, setup must not create " +
		"another in its place."
	m.notes["postgres.slot"] = "Debezium's slot, from its confirmed position on."

	parts := map[string]string{}
	resolved := true
	for _, name := range []string{"hostname", "port", "user", "dbname", "sslmode", "sslrootcert", "sslcert", "sslkey"} {
		parts[name] = m.in.value("database." + name)
		resolved = resolved && !unresolved(parts[name])
	}
	if !resolved || parts["hostname"] == "" {
		m.notes["postgres"] = "Host, user or database are not in the input: export PGHOST, PGPORT, PGUSER, " +
			"PGDATABASE and PGPASSWORD (and PGSSLMODE …),\nor set dsn."
		delete(m.notes, "postgres.dsn")
		return
	}
	if parts["port"] == "" {
		parts["port"] = "5432"
	}
	u := url.URL{
		Scheme: "postgres", User: url.User(parts["user"]),
		Host: net.JoinHostPort(parts["hostname"], parts["port"]), Path: "/" + parts["dbname"],
	}
	if parts["user"] == "" {
		u.User = nil
	}
	q := url.Values{}
	for _, name := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey"} {
		if parts[name] != "" {
			q.Set(name, parts[name])
		}
	}
	if q.Get("sslmode") == "" {
		q.Set("sslmode", "prefer") // Debezium's default
	}
	u.RawQuery = q.Encode()
	m.out.set("postgres.dsn", u.String())
}
