package postgres_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// held is a connection for a cancel request through a slow pooler: nothing of it arrives before release.
type held struct {
	net.Conn
	release <-chan struct{}
	early   *atomic.Bool // it was closed before release
}

func (h *held) Write(b []byte) (int, error) {
	go func() {
		<-h.release
		_, _ = h.Conn.Write(b)
	}()
	return len(b), nil
}

func (h *held) Close() error {
	select {
	case <-h.release:
	default:
		h.early.Store(true)
	}
	return h.Conn.Close()
}

// TestACancelRequestIsNotAbandoned: the statement ends before its cancel request arrives. The request's connection
// stays until the server has closed it, or PgBouncer before 1.19.1 ends with all of its clients. The next statement is
// not cancelled.
//
// Bug (poolers): If a statement ended before its cancel request arrived, the connection of the request was closed at
// once. Cost: PgBouncer before 1.19.1 ended with all of its clients, at a stop of this process.
func TestACancelRequestIsNotAbandoned(t *testing.T) {
	db := testkit.Postgres(t)
	release := make(chan struct{})
	var dials atomic.Int32
	var early atomic.Bool
	conn, err := postgres.Open(t.Context(), db.DSN, postgres.ConnectOptions{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil || dials.Add(1) == 1 {
				return c, err
			}
			time.AfterFunc(2500*time.Millisecond, func() { close(release) })
			return &held{Conn: c, release: release, early: &early}, nil
		},
	})
	require.NoError(t, err)
	defer postgres.CloseConn(conn)

	// A slow machine has two seconds to begin, and two from the statement's end to the request.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = conn.Exec(ctx, "SELECT pg_sleep(2.5)")
	require.NoError(t, err, "it ended before the request arrived")
	require.EqualValues(t, 2, dials.Load(), "no request was sent")
	require.False(t, early.Load())
	var one int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT 1").Scan(&one))
}
