package walsender_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

const (
	claimOne     = "SELECT l, pg_try_advisory_xact_lock(7, l) FROM unnest('{1}'::int[]) l"
	claimBoth    = "SELECT l, pg_try_advisory_xact_lock(7, l) FROM unnest('{1,2}'::int[]) l"
	keepLanes    = "SELECT WHERE (SELECT count(pg_try_advisory_lock(7, l)) FROM unnest('{1,2}'::int[]) l) IS NULL"
	releaseLanes = "SELECT WHERE (SELECT count(pg_advisory_unlock(7, l)) FROM unnest('{1,2}'::int[]) l) IS NULL"
)

// lanes sends one message and returns which lanes it got. Every other column is not looked at.
func (c *client) lanes(sql string) (got []string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.conn.Frontend().Send(&pgproto3.Query{String: sql})
	require.NoError(c.t, c.conn.Frontend().Flush())
	for {
		m, err := c.conn.ReceiveMessage(ctx)
		require.NoError(c.t, err)
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			require.Fail(c.t, m.Message)
		case *pgproto3.DataRow:
			if string(m.Values[1]) == "t" {
				got = append(got, string(m.Values[0]))
			}
		case *pgproto3.ReadyForQuery:
			return got
		}
	}
}

func laneLocks(t testing.TB, s server) {
	one, other := connect(t, s, nil), connect(t, s, nil)
	defer other.close()
	require.Equal(t, []string{"1", "2"}, one.lanes("BEGIN; "+claimBoth))
	require.Empty(t, other.lanes("BEGIN; "+claimBoth))
	require.Empty(t, other.lanes("COMMIT"))

	require.Equal(t, []string{"1"}, one.lanes(keepLanes+"; COMMIT; BEGIN; "+claimOne), "the session's own")
	require.Empty(t, other.lanes("BEGIN; "+claimBoth+"; COMMIT"), "the session has both")
	require.Empty(t, one.lanes(releaseLanes))
	require.Equal(t, []string{"2"}, other.lanes("BEGIN; "+claimBoth+"; COMMIT"), "the transaction has one")
	require.Empty(t, one.lanes("COMMIT"))
	require.Equal(t, []string{"1", "2"}, other.lanes("BEGIN; "+claimBoth+"; COMMIT"))

	require.Equal(t, []string{"1"}, one.lanes("BEGIN; "+claimOne))
	s.terminate(one.pid())
	await(t, "the end of a session frees its lanes", func() bool {
		return len(other.lanes("BEGIN; "+claimBoth+"; COMMIT")) == 2
	})
	one.close()
}
