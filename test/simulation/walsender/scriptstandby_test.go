package walsender_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// looksAtStandbys asks as the standby gate does. Neither server has a standby.
func looksAtStandbys(t testing.TB, s server) {
	ctx := context.Background()
	conn, err := postgres.Open(ctx, "host=10.0.0.1 user=relay sslmode=disable dbname="+s.database(),
		postgres.ConnectOptions{
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		})
	require.NoError(t, err)
	defer postgres.CloseConn(conn)
	look := func() *standbys.Look {
		l, err := standbys.Ask(ctx, conn, "cdc_outbox")
		require.NoError(t, err)
		require.False(t, l.InRecovery)
		require.False(t, l.Failover)
		require.Equal(t, "relay", l.Role)
		require.Empty(t, l.SyncNames)
		require.Empty(t, l.Active)
		require.Empty(t, l.Slots)
		require.GreaterOrEqual(t, walsender.ParseLSN(l.Inserted), walsender.ParseLSN(l.Flushed))
		return l
	}
	require.Zero(t, look().HolderPID)
	c := stream(t, s, 0)
	defer c.close()
	s.commit("a")
	got := c.next()
	l := look()
	require.NotZero(t, l.HolderPID)
	require.GreaterOrEqual(t, walsender.ParseLSN(l.Flushed), got.end, "the stream sends only what is flushed")
	again := look()
	require.Equal(t, l.HolderPID, again.HolderPID)
}
