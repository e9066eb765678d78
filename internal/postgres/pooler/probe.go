package pooler

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/password"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// mostHosts bounds how many of a connection string's hosts are looked at.
const mostHosts = 16

// Probe checks the connection to each host of the connection string, since one of several may be a pooler. A host that
// does not answer is left out: what keeps every session from connecting is reported elsewhere.
func Probe(ctx context.Context, dsn, slot string, timeout time.Duration) []Route {
	pc, err := password.Parse(dsn)
	if err != nil {
		return nil
	}
	if pc.ConnectTimeout == 0 {
		pc.ConnectTimeout = timeout
	}
	hosts := eachHost(&pc.Config)
	ways := make([]*Route, len(hosts))
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() { ways[i] = probeHost(ctx, host, slot) })
	}
	wg.Wait()
	var out []Route
	for _, w := range ways {
		if w != nil {
			out = append(out, *w)
		}
	}
	return out
}

// Findings lists what is wrong with the routes.
func Findings(ways []Route) []preflight.Finding {
	var out []preflight.Finding
	for _, w := range ways {
		out = append(out, w.findings()...)
	}
	return out
}

// eachHost takes a configuration of several hosts apart. pgconn keeps all but the first, and the same host with and
// without TLS, as fallbacks.
func eachHost(pc *pgconn.Config) []*pgconn.Config {
	all := append([]*pgconn.FallbackConfig{{Host: pc.Host, Port: pc.Port, TLSConfig: pc.TLSConfig}}, pc.Fallbacks...)
	var out []*pgconn.Config
	for _, f := range all {
		at := slices.IndexFunc(out, func(c *pgconn.Config) bool { return c.Host == f.Host && c.Port == f.Port })
		switch {
		case at >= 0:
			out[at].Fallbacks = append(out[at].Fallbacks, f)
		case len(out) < mostHosts:
			one := pc.Copy()
			one.Host, one.Port, one.TLSConfig, one.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
			one.ValidateConnect = nil // target_session_attrs: a standby is looked at as well
			one.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
			out = append(out, one)
		}
	}
	return out
}

// probeHost tries an ordinary connection to one host, then a replication connection as run has it.
func probeHost(ctx context.Context, host *pgconn.Config, slot string) *Route {
	ctx, cancel := context.WithTimeout(ctx, 3*host.ConnectTimeout)
	defer cancel()
	w := Route{Host: host.Host, Port: host.Port, User: host.User}
	conn, err := pgconn.ConnectConfig(ctx, ordinary(host, host.Database))
	if err != nil {
		if w.Refusal = sqlstate.RefusalOf(err); w.Refusal == nil ||
			!RefusesParameters(w.Refusal) && !RefusesLogin(w.Refusal) {
			return nil
		}
		if RefusesParameters(w.Refusal) { // with the user as it is the console would refuse the login as well
			w.askConsoles(ctx, host)
		}
		return &w
	}
	defer login.Hangup(conn)
	if w.Survey(ctx, conn) != nil {
		return nil
	}
	w.tryReplication(ctx, host, slot)
	if w.Relayed() {
		w.Shared = w.lentOut(ctx, host)
	}
	switch {
	case w.Relayed() || w.Refusal != nil && RefusesParameters(w.Refusal) || w.Ordinary:
		w.askConsoles(ctx, host)
	case w.Forwarded:
		w.askPgpool(ctx, conn)
	}
	return &w
}

// ordinary is the host's configuration for SQL in a database.
func ordinary(host *pgconn.Config, database string) *pgconn.Config {
	pc := host.Copy()
	pc.Database = database
	delete(pc.RuntimeParams, "replication")
	if pc.RuntimeParams["application_name"] == "" {
		pc.RuntimeParams["application_name"] = "cdc-outbox admin"
	}
	return pc
}

// surveySQL goes by the simple protocol: prepared statements may be what does not work here.
const surveySQL = `SELECT pg_catalog.pg_backend_pid(), coalesce(pg_catalog.host(pg_catalog.inet_server_addr()), ''),
	coalesce(pg_catalog.inet_server_port(), pg_catalog.current_setting('port')::pg_catalog.int4),
		coalesce(pg_catalog.inet_client_port(), 0)`

// Survey asks the server how it sees the connection.
func (w *Route) Survey(ctx context.Context, conn *pgconn.PgConn) error {
	row, err := oneRow(ctx, conn, surveySQL, 4)
	if err != nil {
		return err
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(row[i])); return n } // not a number: not known
	w.KeyPID, w.BackendPID = conn.PID(), uint32(max(number(0), 0))
	w.ServerAddr, w.ServerPort = string(row[1]), number(2)
	if local, ok := conn.Conn().LocalAddr().(*net.TCPAddr); ok {
		w.Forwarded = number(3) != local.Port
	} else {
		w.Forwarded = number(3) > 0
	}
	return nil
}

// oneRow returns the one row of a statement, by the simple protocol.
func oneRow(ctx context.Context, conn *pgconn.PgConn, sql string, columns int) ([][]byte, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < columns {
		return nil, errors.New("the server's answer has another shape than the question")
	}
	return results[0].Rows[0], nil
}

// tryReplication opens a replication connection with the settings of run's, and closes it.
func (w *Route) tryReplication(ctx context.Context, host *pgconn.Config, slot string) {
	pc := host.Copy()
	session.SetStreamParams(pc, slot)
	conn, err := pgconn.ConnectConfig(ctx, pc)
	if err != nil {
		w.Refusal = sqlstate.RefusalOf(err)
		w.Tried = w.Refusal != nil
		if w.Tried && RefusesParameters(w.Refusal) {
			w.tryBare(ctx, host)
		}
		return
	}
	defer login.Hangup(conn)
	w.Tried = true
	if _, err := oneRow(ctx, conn, "IDENTIFY_SYSTEM", 4); err != nil {
		if pg := sqlstate.RefusalOf(err); pg != nil && pg.Code == sqlstate.SyntaxError {
			w.Ordinary = true
		} else {
			w.Tried = false
		}
		return
	}
	if row, err := oneRow(ctx, conn, "SELECT "+session.LostSettings, 1); err == nil && row[0] != nil {
		w.Lost = strings.Split(string(row[0]), ", ")
	}
}

// tryBare finds out what a pooler refuses: the replication connection or the settings that come with it. Which of
// several parameters it names is chance.
func (w *Route) tryBare(ctx context.Context, host *pgconn.Config) {
	pc := host.Copy()
	pc.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, pc)
	if err == nil {
		w.Bare = true
		login.Hangup(conn)
	} else if pg := sqlstate.RefusalOf(err); pg != nil && RefusesParameters(pg) {
		w.Refusal = pg
	}
}

// lentOut opens two connections at once. A pooler that serves both with the same backend lends it out for a transaction
// or a statement; different backends prove nothing.
func (w *Route) lentOut(ctx context.Context, host *pgconn.Config) bool {
	var pids [2]string
	var conns [2]*pgconn.PgConn
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				login.Hangup(conn)
			}
		}
	}()
	for i := range pids {
		conn, err := pgconn.ConnectConfig(ctx, ordinary(host, host.Database))
		if err != nil {
			return false
		}
		conns[i] = conn
		row, err := oneRow(ctx, conn, "SELECT pg_catalog.pg_backend_pid()", 1)
		if err != nil {
			return false
		}
		pids[i] = string(row[0])
	}
	return pids[0] == pids[1]
}
