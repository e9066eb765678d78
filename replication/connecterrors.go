package replication

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/pooler"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// connectError is for a connection that did not come about. Once one has (again), a refused login is no longer a
// mistake in the configuration but most likely a password that is being changed: that passes.
func (c *Config) connectError(pc *pgconn.Config, err error, again bool) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if pooler.RefusesParameters(pg) || pooler.RefusesLogin(pg) && !again {
			return pooler.Route{Tried: true, Refusal: pg}.ToHostOf(pc).Fault()
		}
		f := &fault.Error{Object: server(pc), Err: &sqlstate.Refusal{PgError: pg}, Kind: sqlstate.KindOf(pg.Code)}
		f.With(c.remedy(duringConnect, pg.Code))
		if again && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000") {
			f.Kind = fault.Retry
		}
		return f
	}
	var source *fault.Error
	if errors.As(err, &source) { // of the password
		if again {
			source.Kind = fault.Retry
		}
		return source
	}
	// pgconn's error holds the whole configuration, password included, so only its text goes on, and that without it.
	cause := err
	var dial *pgconn.ConnectError
	if errors.As(err, &dial) {
		cause = dial.Unwrap()
	}
	text := fault.OneLine(cause).Error()
	if len(pc.Password) > 3 {
		text = strings.ReplaceAll(text, pc.Password, "…")
	}
	f := &fault.Error{Kind: fault.Retry, Object: server(pc), Err: errors.New("cannot connect: " + text)}
	return f.With(postgres.ReachRemedy(pc.Host, pc.Port, cause))
}

// server names the server without user, password or parameters.
func server(pc *pgconn.Config) string { return fmt.Sprintf("postgres %s:%d", pc.Host, pc.Port) }
