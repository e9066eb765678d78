package slotmonitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// queryTimeout bounds connecting and the question of one tick, here and on the server.
const queryTimeout = 5 * time.Second

// source answers one tick. It connects when it has to.
type source interface {
	snapshot(ctx context.Context) (Snapshot, error)
	close()
}

// connection asks over a connection of its own. After any error it drops the connection: the next tick makes another
// one, maybe to another server.
type connection struct {
	dsn      func() (string, error)
	only     []string
	walFiles bool // the size of pg_wal matters
	conn     *pgx.Conn
	service  cloud.Service // of the server at the other end
}

func (c *connection) snapshot(ctx context.Context) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	snap, err := c.ask(ctx)
	if err != nil {
		c.close()
		return Snapshot{}, plain(err)
	}
	return snap, nil
}

func (c *connection) ask(ctx context.Context) (Snapshot, error) {
	if c.conn == nil {
		conn, err := c.connect(ctx)
		if err != nil {
			return Snapshot{}, err
		}
		c.conn = conn
	}
	var answer []byte
	if err := c.conn.QueryRow(ctx, snapshotSQL, c.only).Scan(&answer); err != nil {
		return Snapshot{}, err
	}
	snap, err := parseSnapshot(answer)
	snap.Service = c.service
	if err != nil || !c.walFiles || !snap.MayListWAL {
		return snap, err
	}
	err = c.conn.QueryRow(ctx, walFilesSQL).Scan(&snap.WALFiles)
	return snap, err
}

func (c *connection) connect(ctx context.Context) (*pgx.Conn, error) {
	dsn, err := c.dsn()
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w", err)
	}
	cfg, err := postgres.ParseConfig(dsn)
	if err != nil {
		// The parser quotes the string, and masks a password in it only as best it can.
		return nil, errors.New("the connection string is neither a libpq one nor a postgres:// URL")
	}
	delete(cfg.RuntimeParams, "replication") // the string may be the stream's; a walsender has no extended protocol
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "cdc-outbox monitor"
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // no prepared statement to lose
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, postgres.ConnectFault(cfg, err)
	}
	if err := session.Override(ctx, conn.PgConn()); err != nil {
		postgres.CloseConn(conn) // the error that counts is the first
		return nil, err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d", queryTimeout.Milliseconds()))
	if err != nil {
		postgres.CloseConn(conn) // the error that counts is the first
		return nil, err
	}
	c.service, _ = postgres.LookupService(ctx, conn) // it only words a remedy
	return conn, nil
}

func (c *connection) close() {
	if c.conn == nil {
		return
	}
	postgres.CloseConn(c.conn) // only read from
	c.conn = nil
}

// plain keeps what a person needs of an error. pgconn's own holds the whole configuration, password included.
func plain(err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err // with its remedy
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Errorf("%s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	var dial *pgconn.ConnectError
	if errors.As(err, &dial) {
		return fmt.Errorf("cannot connect: %w", fault.OneLine(dial.Unwrap()))
	}
	return err
}
