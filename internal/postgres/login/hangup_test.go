package login_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// TestHangup: a server that does not answer, or does not stop to, is left after a second.
//
// Bug (configuration): The end of a failed connection waited for a server that did not answer, or sent without end.
// Cost: 15 seconds more until a process ended that was asked to stop, with the first, and a core with the second. Also:
// `TestLiesOfAServer` in `test/e2e`, e2e.
func TestHangup(t *testing.T) {
	for name, then := range map[string]func(net.Conn){
		"silent": func(net.Conn) {}, "endless": floods,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { hangsUp(t, then) }) })
	}
}

//waits:bubble
func hangsUp(t *testing.T, then func(net.Conn)) {
	session, server := net.Pipe()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { then(greeted(server)) })
	cfg, err := pgconn.ParseConfig("host=127.0.0.1 user=u dbname=d sslmode=disable")
	require.NoError(t, err)
	dialed := false
	cfg.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		if dialed { // for a cancel request
			return nil, net.ErrClosed
		}
		dialed = true
		return session, nil
	}
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = conn.Exec(ctx, "SELECT 1").ReadAll()
	require.Error(t, err)
	require.True(t, conn.IsClosed())

	began := time.Now()
	login.Hangup(conn)
	require.LessOrEqual(t, time.Since(began), time.Second)
	<-conn.CleanupDone()
	require.LessOrEqual(t, time.Since(began), time.Second)
}

// floods sends notices until the connection ends.
//
//waits:bubble
func floods(conn net.Conn) {
	for {
		if _, err := conn.Write(message('N', "Mwait\x00\x00")); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// greeted lets a client in and reads all that it says.
func greeted(conn net.Conn) net.Conn {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err == nil {
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = b.Flush()
	}
	go func() {
		for {
			if _, err := conn.Read(make([]byte, 1024)); err != nil {
				return
			}
		}
	}()
	return conn
}
