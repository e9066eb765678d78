package walsender_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// server is what a script runs against. What an application or an operator does is here, what the relay does is a
// session's.
type server interface {
	dial(context.Context) (net.Conn, error)
	database() string
	version() int // major
	commit(ids ...string)
	foreign()
	terminate(pid int)
	advance(to walsender.LSN) (code string)
	deny(on bool)
	lock(on bool)
	limitTransactions(time.Duration)
	stop(crash bool)
	start()
}

// standIn is the simulation's server.
type standIn struct {
	net    *network.Network
	server *walsender.Server
	major  int
}

const address = "10.0.0.1:5432"

func runStandIn(t *testing.T, major int, script func(testing.TB, server)) {
	standInOf(t, major, func(t *testing.T, s *standIn) { script(t, s) })
}

// standInOf runs a test against a stand-in of its own, in a bubble.
func standInOf(t *testing.T, major int, test func(*testing.T, *standIn)) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{net: network.New(1), major: major}
		s.server = walsender.New(walsender.Config{
			SystemID: "7300000000000000001", Database: "shop", Publication: "cdc_outbox", Slot: "cdc_outbox",
			Table: "cdc_outbox_memory", Version: major * 10000, SenderTimeout: time.Minute, RowTime: time.Millisecond,
			Polled: true,
		})
		s.net.Listen(address, s.server.Serve)
		defer func() {
			s.net.Close()
			time.Sleep(time.Minute) // until every goroutine has noticed
		}()
		test(t, s)
	})
}

func (s *standIn) dial(ctx context.Context) (net.Conn, error) {
	return s.net.Dialer("a1")(ctx, "tcp", address)
}
func (s *standIn) database() string { return "shop" }
func (s *standIn) version() int     { return s.major }
func (s *standIn) commit(ids ...string) {
	var rows []walsender.Row
	for _, id := range ids {
		rows = append(rows, walsender.Row{ID: id, Topic: "order", Key: "k"})
	}
	s.server.Commit(rows)
}
func (s *standIn) foreign() { s.server.Foreign(4096) }
func (s *standIn) terminate(pid int) {
	s.server.TerminatePID(pid)
}
func (s *standIn) advance(to walsender.LSN) string   { return s.server.Advance(to) }
func (s *standIn) deny(on bool)                      { s.server.Deny(on) }
func (s *standIn) lock(on bool)                      { s.server.Lock(on) }
func (s *standIn) limitTransactions(d time.Duration) { s.server.LimitTransactions(d) }
func (s *standIn) stop(crash bool)                   { s.server.Stop(crash) }
func (s *standIn) start()                            { s.server.Start() }

// realServer is PostgreSQL.
type realServer struct {
	t      testing.TB
	db     *testkit.Database
	locked *pgx.Conn
}

// runReal gives each script a slot and tables of its own, on one server.
func runReal(t *testing.T, each func(run func(*testing.T, func(testing.TB, server)), major int)) {
	db := testkit.DedicatedPostgres(t, postgres.Options{Settings: map[string]string{"autovacuum": "off"}})
	db.Exec(t, "CREATE ROLE relay LOGIN REPLICATION")
	each(func(t *testing.T, script func(testing.TB, server)) {
		s := &realServer{t: t, db: db}
		s.prepare()
		defer s.unlock()
		script(t, s)
	}, db.Major())
}

func (s *realServer) prepare() {
	s.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'`)
	await(s.t, "the slot is released", func() bool {
		err := s.db.Server.Exec(context.Background(), s.db.Name,
			`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots`)
		return err == nil
	})
	s.exec(`DROP TABLE IF EXISTS outbox, other, cdc_outbox_memory; DROP PUBLICATION IF EXISTS cdc_outbox`)
	s.exec(`CREATE TABLE outbox (id text PRIMARY KEY, aggregate_type text, aggregate_id text, event_type text,
			payload text);
		CREATE TABLE other (v text);
		CREATE TABLE cdc_outbox_memory (slot text PRIMARY KEY, system_id text NOT NULL, timeline int NOT NULL,
			position pg_lsn NOT NULL, updated_at timestamptz NOT NULL DEFAULT now(), writes bigint NOT NULL DEFAULT 0);
		GRANT SELECT, INSERT, UPDATE ON cdc_outbox_memory TO relay;
		GRANT SELECT ON outbox TO relay;
		CREATE PUBLICATION cdc_outbox FOR TABLE outbox`)
	s.exec(`SELECT pg_create_logical_replication_slot('cdc_outbox', 'pgoutput')`)
}

func (s *realServer) exec(sql string) {
	s.t.Helper()
	require.NoError(s.t, s.db.Server.Exec(context.Background(), s.db.Name, sql))
}

func (s *realServer) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.db.Addr())
}
func (s *realServer) database() string { return s.db.Name }
func (s *realServer) version() int     { return s.db.Major() }
func (s *realServer) commit(ids ...string) {
	var rows []string
	for _, id := range ids {
		rows = append(rows, fmt.Sprintf("('%s', 'order', 'k', 'changed', '%s')", id, id))
	}
	s.exec("INSERT INTO outbox VALUES " + strings.Join(rows, ", "))
}

// foreign commits, so that the WAL is flushed: a walsender sends nothing that is not.
func (s *realServer) foreign() { s.exec("INSERT INTO other VALUES (repeat('x', 4000))") }

func (s *realServer) terminate(pid int) {
	s.exec(fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
}

func (s *realServer) advance(to walsender.LSN) string {
	err := s.db.Server.Exec(context.Background(), s.db.Name,
		fmt.Sprintf("SELECT pg_replication_slot_advance('cdc_outbox', '%s')", to))
	if err == nil {
		return ""
	}
	return codeOf(err)
}

func (s *realServer) deny(on bool) {
	if on {
		s.exec("REVOKE ALL ON cdc_outbox_memory FROM relay")
		return
	}
	s.exec("GRANT SELECT, INSERT, UPDATE ON cdc_outbox_memory TO relay")
}

func (s *realServer) lock(on bool) {
	if !on {
		s.unlock()
		return
	}
	conn, err := s.db.Connect(context.Background(), s.db.Name)
	require.NoError(s.t, err)
	s.locked = conn
	_, err = conn.Exec(context.Background(), "BEGIN; LOCK TABLE cdc_outbox_memory IN EXCLUSIVE MODE")
	require.NoError(s.t, err)
}

func (s *realServer) unlock() {
	if s.locked != nil {
		_ = s.locked.Close(context.Background())
		s.locked = nil
	}
}

// limitTransactions limits the relay's sessions only.
func (s *realServer) limitTransactions(d time.Duration) {
	if s.version() >= 17 {
		s.exec(fmt.Sprintf("ALTER ROLE relay SET transaction_timeout = %d", d.Milliseconds()))
	}
}

func (s *realServer) stop(crash bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	mode := postgres.Fast
	if crash {
		mode = postgres.Immediate
	}
	err := s.db.Stop(ctx, mode)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		require.NoError(s.t, err)
	}
}

func (s *realServer) start() { require.NoError(s.t, s.db.Start(context.Background())) }

func TestMain(m *testing.M) { testkit.Main(m) }
