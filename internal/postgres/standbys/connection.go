package standbys

import (
	"context"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// query asks the server over the gate's own connection.
func (g *Gate) query(ctx context.Context) (*Look, error) {
	if g.conn == nil {
		dsn, err := g.cfg.DSN()
		if err != nil {
			return nil, err
		}
		if g.conn, err = dial(ctx, dsn, g.cfg.Dial); err != nil {
			return nil, err
		}
	}
	l, err := Ask(ctx, g.conn, g.cfg.Slot)
	if err != nil {
		return nil, postgres.QueryFault("standbys", err)
	}
	return l, nil
}

// dial prepares statements, since planning the query takes longer than running it, but not where a pooler lends out its
// connections: another backend than the login named answers there.
func dial(ctx context.Context, dsn string, through pgconn.DialFunc) (*pgx.Conn, error) {
	options := postgres.ConnectOptions{Application: "cdc-outbox standbys", Dial: through}
	conn, err := postgres.Open(ctx, dsn, options)
	if err != nil {
		return nil, err
	}
	answer := conn.PgConn().Exec(ctx, "SELECT pg_backend_pid()")
	results, err := answer.ReadAll()
	if err != nil {
		postgres.CloseConn(conn)
		return nil, postgres.QueryFault("standbys", err)
	}
	if string(results[0].Rows[0][0]) == strconv.Itoa(int(conn.PgConn().PID())) {
		return conn, nil
	}
	postgres.CloseConn(conn)
	options.Unprepared = true
	return postgres.Open(ctx, dsn, options)
}

func (g *Gate) hangUp() {
	if g.conn != nil {
		postgres.CloseConn(g.conn)
		g.conn = nil
	}
}
