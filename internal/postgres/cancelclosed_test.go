package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// watched is a connection that remembers its deadline.
type watched struct {
	net.Conn
	deadline atomic.Pointer[time.Time]
}

func (w *watched) SetDeadline(t time.Time) error {
	w.deadline.Store(&t)
	return w.Conn.SetDeadline(t)
}

// TestClosingKeepsItsDeadline: a session breaks while its cancel request is under way, and the server leaves it open.
// The goroutine of pgconn that closes it waits for the server until a deadline, which must stay.
//
// Bug (configuration): pgconn's deadline for closing a session was lifted by a cancel request that had just ended.
// Cost: a goroutine and a socket as long as the server leaves the session open.
func TestClosingKeepsItsDeadline(t *testing.T) { synctest.Test(t, closingKeepsItsDeadline) }

//waits:bubble
func closingKeepsItsDeadline(t *testing.T) {
	client, server := net.Pipe()
	session := &watched{Conn: client}
	ended := make(chan struct{})
	go backend(server, ended)
	cfg, err := pgconn.ParseConfig("host=127.0.0.1 user=u dbname=d sslmode=disable")
	require.NoError(t, err)
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler { return &canceller{conn: c} }
	var dials atomic.Int32
	cfg.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			return session, nil
		}
		near, far := net.Pipe() // for a cancel request
		go func() { _, _ = far.Read(make([]byte, 64)); _ = far.Close() }()
		return near, nil
	}
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(); close(ended) })
	_, err = conn.Prepare(ctx, "", "SELECT 1", nil)
	require.Error(t, err)
	require.True(t, conn.IsClosed())
	require.Eventually(t, func() bool { return dials.Load() == 3 }, time.Minute, 10*time.Millisecond)
	time.Sleep(2 * cancelArrival)
	require.False(t, session.deadline.Load().IsZero())
	_ = server.Close()
	<-conn.CleanupDone()
}

// backend takes a session, answers its first statement with nonsense as soon as ended is closed, and leaves it open.
func backend(conn net.Conn, ended <-chan struct{}) {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	if _, err := b.Receive(); err != nil {
		return
	}
	<-ended
	go func() { _, _ = conn.Write([]byte{0xff, 0, 0, 0, 4, 0xff, 0, 0, 0, 4}) }()
	for {
		if _, err := conn.Read(make([]byte, 1024)); err != nil {
			return
		}
	}
}
