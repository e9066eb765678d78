package migrate

import (
	"net"
	"net/url"
)

func password(m *migration, _, value string) outcome {
	m.notes["postgres.dsn"] = "The password is not written here: export PGPASSWORD, have a ~/.pgpass, or put the whole connection string into a\nfile and write dsn: \"@/run/secrets/postgres-dsn\"."
	if wholly.MatchString(value) {
		return outcome{Translated, "postgres.dsn", "Give it as PGPASSWORD, in ~/.pgpass, or with the whole connection string in a file (dsn: \"@/path\")."}
	}
	return outcome{Translated, "postgres.dsn", "Not repeated: give it as PGPASSWORD, in ~/.pgpass, or with the whole connection string in a file (dsn: \"@/path\"). It stands in clear in this input."}
}

// postgres makes the connection string, without the password, and names slot, publication and tables.
func (m *migration) postgres() {
	m.out.set("postgres.slot", m.slot)
	m.out.set("postgres.publication", m.pub)
	m.out.set("postgres.setup", "never")
	m.notes["postgres.setup"] = "Slot and publication are Debezium's; nothing is to be created in their place if one is missing."
	m.notes["postgres.slot"] = "Debezium's, which goes on where it is."

	parts := map[string]string{}
	resolved := true
	for _, name := range []string{"hostname", "port", "user", "dbname", "sslmode", "sslrootcert", "sslcert", "sslkey"} {
		parts[name] = m.in.value("database." + name)
		resolved = resolved && !placeholder.MatchString(parts[name])
	}
	if !resolved || parts["hostname"] == "" {
		m.notes["postgres"] = "Host, user or database stand in placeholders: export PGHOST, PGPORT, PGUSER, PGDATABASE and PGPASSWORD (and PGSSLMODE …),\nor set dsn."
		delete(m.notes, "postgres.dsn")
		return
	}
	if parts["port"] == "" {
		parts["port"] = "5432"
	}
	u := url.URL{Scheme: "postgres", User: url.User(parts["user"]), Host: net.JoinHostPort(parts["hostname"], parts["port"]), Path: "/" + parts["dbname"]}
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
