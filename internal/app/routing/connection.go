package routing

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/password"
)

// DSN reads the connection string for each connection, with the source of its password.
func DSN(c *config.Loaded) func() (string, error) { return source(c).Reader(c.Postgres.DSN.Read) }

// PrimaryDSN is DSN for the primary of a hot standby.
func PrimaryDSN(c *config.Loaded) func() (string, error) {
	return source(c).Reader(c.Postgres.PrimaryDSN.Read)
}

func source(c *config.Loaded) password.Source {
	return password.Source{
		Command: c.Postgres.PasswordCommand, File: c.Postgres.PasswordFile, Timeout: c.Postgres.PasswordTimeout,
	}
}
