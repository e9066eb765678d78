package setup

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// loginOnly is a server that answers nothing after the login and the first query, as one behind a firewall that has
// forgotten the connection.
func loginOnly(conn net.Conn) {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	if _, err := b.Receive(); err == nil {
		b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = b.Flush()
	}
}

// TestALookThatIsNotAnsweredEnds: the watch of publication and gaps checks again by another connection.
//
// Bug (setup): The check of publication and gaps waited without an end for its answer. Cost: after a firewall had
// dropped the connection without a word, a table that left the publication was not noticed for a quarter of an hour.
func TestALookThatIsNotAnsweredEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("the cancel request has five seconds to be answered")
	}
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go loginOnly(conn)
		}
	}()
	dsn := fmt.Sprintf("postgres://relay@%s/shop?sslmode=disable", l.Addr())
	cfg := Config{
		ConnectTimeout: time.Second,
		Objects: postgres.Objects{
			Slot: "s", Publication: "p", Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = CheckRunning(ctx, dsn, cfg, nil)
	require.Equal(t, fault.Retry, fault.KindOf(err))
	require.NoError(t, ctx.Err(), "it did not wait for its caller's end")
}
