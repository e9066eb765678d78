package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/password"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/pooler"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// ConnectOptions are how a connection is opened, beyond its connection string.
type ConnectOptions struct {
	Application string            // application_name; default "cdc-outbox admin" where the connection string has none
	Timeout     time.Duration     // of one attempt, unless the connection string has a connect_timeout; default 10s
	Unprepared  bool              // prepare no statement on the server: a transaction pooler may lie in between
	Settings    map[string]string // run-time parameters
	Listens     bool              // waits for notifications: a context that ends also ends the connection, at once
	Rows        bool              // reads rows of users' tables, so an answer may have any length
	Dial        pgconn.DialFunc   // nil: as the connection string says
}

// Connect opens an ordinary SQL connection under the given application name, for what works beside the stream. Errors
// are *fault.Error and never hold the DSN. No statement is prepared on the server.
func Connect(ctx context.Context, dsn, application string) (*pgx.Conn, error) {
	return Open(ctx, dsn, ConnectOptions{Application: application, Unprepared: true})
}

// Open opens an ordinary connection. A context that ends cancels the running statement on the server, so that no slot
// is created for a caller that no longer waits, and leaves the connection usable for one last question.
func Open(ctx context.Context, dsn string, o ConnectOptions) (*pgx.Conn, error) {
	pc, err := ParseConfig(dsn)
	if err != nil {
		return nil, DSNFault(dsn)
	}
	delete(pc.RuntimeParams, "replication") // the DSN may be the stream's; a walsender has no extended protocol
	if pc.RuntimeParams["application_name"] == "" {
		pc.RuntimeParams["application_name"] = "cdc-outbox admin"
	}
	if o.Application != "" {
		pc.RuntimeParams["application_name"] = o.Application
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if pc.ConnectTimeout == 0 {
		pc.ConnectTimeout = o.Timeout
	}
	if o.Dial != nil {
		pc.DialFunc = o.Dial
	}
	maps.Copy(pc.RuntimeParams, o.Settings)
	if o.Unprepared {
		pc.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	pc.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	if o.Rows || o.Listens {
		login.ReadsRows(&pc.Config)
	}
	if o.Listens {
		return connect(ctx, pc) // there is no statement that could be cancelled
	}
	return OpenConfig(ctx, pc)
}

// OpenConfig opens a connection on which the end of a context cancels the running statement on the server, and which
// no limit of the server, the database or the role ends.
func OpenConfig(ctx context.Context, pc *pgx.ConnConfig) (*pgx.Conn, error) {
	pc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &canceller{conn: c}
	}
	return connect(ctx, pc)
}

func connect(ctx context.Context, pc *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, ConnectFault(pc, err)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(pc.ConnectTimeout, 10*time.Second)) // it belongs to the login
	defer cancel()
	if err := session.Override(ctx, conn.PgConn()); err != nil {
		CloseConn(conn)
		return nil, QueryFault(serverName(pc), err)
	}
	return conn, nil
}

// CloseConn is login.Hangup. An abandoned cancel request has its cost: see canceller.
func CloseConn(conn *pgx.Conn) { login.Hangup(conn.PgConn()) }

// ParseConfig reads a connection string, which may carry where its password comes from.
func ParseConfig(dsn string) (*pgx.ConnConfig, error) { return password.Parse(dsn) }

// QueryFault classifies the error of a statement: the server's own refusals mostly need an operator, a broken
// connection passes.
func QueryFault(object string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	if long := longRow(object, err); long != nil {
		return long
	}
	f := &fault.Error{Kind: fault.Retry, Object: object, Err: err}
	if pg := sqlstate.RefusalOf(err); pg != nil {
		f.Kind, f.Err = sqlstate.KindOf(pg.Code), &sqlstate.Refusal{PgError: pg}
		if pg.Routine == "check_enable_rls" { // row_security is off: see Open
			f.With(fault.Do(seeAllRows))
		}
	}
	return f
}

// serverName names the server without user, password or parameters.
func serverName(pc *pgx.ConnConfig) string {
	s := fmt.Sprintf("postgres %s:%d", pc.Host, pc.Port)
	for i, f := range pc.Fallbacks {
		if i == 0 || f.Host != pc.Fallbacks[i-1].Host || f.Port != pc.Fallbacks[i-1].Port {
			if f.Host != pc.Host || f.Port != pc.Port {
				s += fmt.Sprintf(", %s:%d", f.Host, f.Port)
			}
		}
	}
	return s
}

// ConnectFault says what kept a connection from being made, without the DSN.
func ConnectFault(pc *pgx.ConnConfig, err error) error {
	f := &fault.Error{Kind: fault.Retry, Object: serverName(pc), Err: err}
	pg := sqlstate.RefusalOf(err)
	var (
		dial   *pgconn.ConnectError
		source *fault.Error
	)
	switch {
	case errors.As(err, &source): // of the password
		return source
	case pg != nil && (pooler.RefusesParameters(pg) || pooler.RefusesLogin(pg)):
		return pooler.Route{Refusal: pg}.ToHostOf(&pc.Config).Fault()
	case pg != nil:
		f.Err = &sqlstate.Refusal{PgError: pg}
		var next fault.Remedy
		f.Kind, next = loginRefusal(pc, pg.Code)
		f.With(next)
		// InitializeSessionUserId in miscinit.c
		if pg.Code == "28000" && strings.HasSuffix(pg.Message, "does not exist") {
			f.With(fault.Do(fmt.Sprintf("Create the role, as a role that may create roles. `cdc-outbox setup "+
				"--role %s` with such a role in --postgres-dsn does it, with the rights.", identifier.Quote(pc.User)),
				fmt.Sprintf("CREATE ROLE %s LOGIN;", identifier.Quote(pc.User))))
		}
	case errors.As(err, &dial):
		f.Err = fmt.Errorf("cannot connect: %w", fault.OneLine(dial.Unwrap()))
		f.With(ReachRemedy(pc.Host, pc.Port, dial.Unwrap()))
	}
	if unset(pc.ConnString()) && len(leading()) == 0 {
		return (&fault.Error{
			Kind: fault.Config, Object: "postgres.dsn",
			Err: fmt.Errorf("it is not set (CDC_OUTBOX_POSTGRES_DSN); libpq's defaults led to %s: %w", f.Object, f.Err),
		}).With(fault.Do("Set it.", "export CDC_OUTBOX_POSTGRES_DSN='postgres://USER:PASSWORD@HOST:5432/DATABASE'"))
	}
	return f
}

// ReachRemedy is what to do about a connection that failed before the server said a word.
func ReachRemedy(host string, port uint16, err error) fault.Remedy {
	if strings.Contains(err.Error(), "channel binding required") {
		return fault.Do("channel_binding=require in postgres.dsn needs TLS and a login by SCRAM: set " +
			"sslmode=verify-full, or take the parameter out.")
	}
	if strings.Contains(err.Error(), "server refused TLS connection") { // pgconn has no value for it
		return fault.Do("The server has no TLS: set ssl = on there. Only if no other host is between, set " +
			"sslmode=disable in postgres.dsn, with require_auth=scram-sha-256 so that no server gets the password.")
	}
	return fault.Do("See whether the server runs and is reached from here.",
		fmt.Sprintf("pg_isready -h %s -p %d", shellWord(host), port))
}

// shellWord quotes a word for a POSIX shell where it needs that.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// LoginRemedy is the next step for a role whose login is refused, by the SQLSTATE.
func LoginRemedy(user, code string) fault.Remedy {
	role := identifier.Quote(user)
	if code == "28P01" {
		return fault.Do("Set the password in postgres.dsn, or give the role a new password in psql.", `\password `+role)
	}
	return fault.Do("See whether pg_hba.conf has a line for the role, this database and this host; a walsender with a "+
		"database matches the database's name. If the role may not log in, allow it.",
		fmt.Sprintf("ALTER ROLE %s LOGIN;", role))
}

// loginRefusal reads the SQLSTATE with which a server turns a connection away (Postgres docs, appendix A).
func loginRefusal(pc *pgx.ConnConfig, code string) (fault.Kind, fault.Remedy) {
	role, database := identifier.Quote(pc.User), identifier.Quote(pc.Database)
	switch code {
	case "28P01", "28000":
		return fault.Operator, LoginRemedy(pc.User, code)
	case "3D000":
		return fault.Operator, fault.Do("Name the outbox's database in postgres.dsn, or create it.",
			fmt.Sprintf("CREATE DATABASE %s;", database))
	case sqlstate.UndefinedObject: // the driver passes a word that it does not know on to the server
		return fault.Operator, fault.Do("Take the parameter out of postgres.dsn, or correct its name.")
	case sqlstate.NotPermitted:
		return fault.Operator, fault.Do("Let the role connect.", fmt.Sprintf("GRANT CONNECT ON DATABASE %s TO "+
			"%s;", database, role))
	case "53300":
		return fault.Retry, fault.Do("Wait for a free connection, or raise max_connections (or the role's or " +
			"database's CONNECTION LIMIT).")
	}
	return fault.Retry, fault.Remedy{}
}
