package walsender_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// patience bounds each wait of a script.
const patience = time.Minute

// client is a session of a script.
type client struct {
	t    testing.TB
	conn *pgconn.PgConn

	mu     sync.Mutex
	socket net.Conn
}

// connect opens a session; params go into the startup message.
func connect(t testing.TB, s server, params map[string]string) *client {
	t.Helper()
	c, err := tryConnect(t, s, params)
	require.NoError(t, err)
	return c
}

func tryConnect(t testing.TB, s server, params map[string]string) (*client, error) {
	cfg, err := pgconn.ParseConfig("host=10.0.0.1 port=5432 user=relay dbname=shop sslmode=disable")
	require.NoError(t, err)
	c := &client{t: t}
	for k, v := range params {
		cfg.RuntimeParams[k] = v
	}
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := s.dial(ctx)
		c.mu.Lock()
		c.socket = conn
		c.mu.Unlock()
		return conn, err
	}
	cfg.Database = s.database()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.conn, err = pgconn.ConnectConfig(ctx, cfg)
	return c, err
}

var replication = map[string]string{"replication": "database"}

func (c *client) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
	<-c.conn.CleanupDone()
}

// cut ends the connection without a word.
func (c *client) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.socket.Close()
}

// query runs a statement by the simple protocol. It returns the first row, the command tag and the error's code.
func (c *client) query(sql string) (row []string, tag, code string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results, err := c.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, "", codeOf(err)
	}
	require.NotEmpty(c.t, results)
	last := results[len(results)-1]
	if len(last.Rows) > 0 {
		for _, v := range last.Rows[0] {
			row = append(row, string(v))
		}
	}
	return row, last.CommandTag.String(), ""
}

// prepared runs a statement by the extended protocol, all in texts.
func (c *client) prepared(sql string, args ...string) (row []string, tag, code string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	res := c.conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	if res.Err != nil {
		return nil, "", codeOf(res.Err)
	}
	if len(res.Rows) > 0 {
		for _, v := range res.Rows[0] {
			row = append(row, string(v))
		}
	}
	return row, res.CommandTag.String(), ""
}

// codeOf is the SQLSTATE of an error, "closed" for a connection that ended without one.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return "closed"
}

// slot reads the slot's row as the relay does.
func (c *client) slot() map[string]any {
	c.t.Helper()
	row, _, code := c.query(`SELECT (SELECT to_jsonb(s)::text FROM pg_catalog.pg_replication_slots s
		WHERE slot_name = 'cdc_outbox')`)
	require.Empty(c.t, code)
	var columns map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(row[0]), &columns))
	return columns
}

func (c *client) confirmed() walsender.LSN {
	c.t.Helper()
	return walsender.ParseLSN(c.slot()["confirmed_flush_lsn"].(string))
}

// holder is the session that reads from the slot, 0 for none.
func (c *client) holder() int {
	c.t.Helper()
	pid, _ := c.slot()["active_pid"].(float64)
	return int(pid)
}

func (c *client) identify() pglogrepl.IdentifySystemResult {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := pglogrepl.IdentifySystem(ctx, c.conn)
	require.NoError(c.t, err)
	return id
}

// pid is the session's backend.
func (c *client) pid() int { return int(c.conn.PID()) }

// txn is a transaction as the stream delivers it.
type txn struct {
	commit, end walsender.LSN
	ids         []string
}

// start begins to stream. It returns the code of the error, empty for none.
func (c *client) start(at walsender.LSN) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := pglogrepl.StartReplication(ctx, c.conn, "cdc_outbox", pglogrepl.LSN(at), pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: []string{"proto_version '1'", "publication_names 'cdc_outbox'"},
	})
	if err == nil {
		return ""
	}
	for { // the session goes on
		m, after := c.conn.ReceiveMessage(ctx)
		if _, ready := m.(*pgproto3.ReadyForQuery); ready || after != nil {
			return codeOf(err)
		}
	}
}

// stream opens a session and streams from there.
func stream(t testing.TB, s server, at walsender.LSN, settings ...string) *client {
	t.Helper()
	c := connect(t, s, replication)
	for _, sql := range settings {
		_, _, code := c.query(sql)
		require.Empty(t, code)
	}
	require.Empty(t, c.start(at))
	return c
}

// heard is one message of the stream.
type heard struct {
	keepalive *pglogrepl.PrimaryKeepaliveMessage
	message   pglogrepl.Message
	done      bool   // CopyDone or the end of the command
	code      string // the end of the session
	nothing   bool   // within the time
}

func (c *client) receive(within time.Duration) heard {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	m, err := c.conn.ReceiveMessage(ctx)
	if err != nil {
		if pgconn.Timeout(err) {
			return heard{nothing: true}
		}
		return heard{code: codeOf(err)}
	}
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return heard{code: m.Code}
	case *pgproto3.CopyDone, *pgproto3.CommandComplete:
		return heard{done: true}
	case *pgproto3.CopyData:
		if m.Data[0] == pglogrepl.PrimaryKeepaliveMessageByteID {
			k, err := pglogrepl.ParsePrimaryKeepaliveMessage(m.Data[1:])
			require.NoError(c.t, err)
			return heard{keepalive: &k}
		}
		x, err := pglogrepl.ParseXLogData(m.Data[1:])
		require.NoError(c.t, err)
		parsed, err := pglogrepl.Parse(x.WALData)
		require.NoError(c.t, err)
		return heard{message: parsed}
	}
	return heard{}
}

// next is the next transaction that holds rows. Before 15 the others are sent as well, empty.
func (c *client) next() (t txn) {
	c.t.Helper()
	for {
		h := c.receive(patience)
		require.False(c.t, h.nothing, "no transaction came")
		require.Empty(c.t, h.code)
		require.False(c.t, h.done)
		switch m := h.message.(type) {
		case *pglogrepl.BeginMessage:
			t = txn{commit: walsender.LSN(m.FinalLSN)}
		case *pglogrepl.InsertMessage:
			t.ids = append(t.ids, string(m.Tuple.Columns[0].Data))
		case *pglogrepl.CommitMessage:
			require.Equal(c.t, t.commit, walsender.LSN(m.CommitLSN))
			if t.end = walsender.LSN(m.TransactionEndLSN); len(t.ids) > 0 {
				return t
			}
		}
	}
}

// reached waits until the server says, by a keepalive or an empty transaction, that the stream is at least there.
func (c *client) reached(at walsender.LSN) walsender.LSN {
	c.t.Helper()
	for {
		h := c.receive(patience)
		require.False(c.t, h.nothing, "the server does not say how far it is")
		if k := h.keepalive; k != nil && walsender.LSN(k.ServerWALEnd) >= at {
			return walsender.LSN(k.ServerWALEnd)
		}
		if m, ok := h.message.(*pglogrepl.CommitMessage); ok && walsender.LSN(m.TransactionEndLSN) >= at {
			return walsender.LSN(m.TransactionEndLSN)
		}
	}
}

// status sends a standby status update.
func (c *client) status(flush walsender.LSN, ask bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(c.t, pglogrepl.SendStandbyStatusUpdate(ctx, c.conn, pglogrepl.StandbyStatusUpdate{
		WALWritePosition: pglogrepl.LSN(flush), WALFlushPosition: pglogrepl.LSN(flush),
		WALApplyPosition: pglogrepl.LSN(flush), ClientTime: time.Now(), ReplyRequested: ask,
	}))
}

func (c *client) sendCopyDone() error {
	c.conn.Frontend().Send(&pgproto3.CopyDone{})
	return c.conn.Frontend().Flush()
}

// over receives until the session ends. It returns the code, "closed" for none, and how long that took.
func (c *client) over() (code string, took time.Duration) {
	c.t.Helper()
	began := time.Now()
	for {
		h := c.receive(patience)
		require.False(c.t, h.nothing, "the session has not ended")
		if h.code != "" {
			return h.code, time.Since(began)
		}
	}
}

// await waits for a condition. A real server takes a moment.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) { //waits:ok a pause
		require.True(t, time.Now().Before(until), what)
	}
}
