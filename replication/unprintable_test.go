package replication

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// unprintable is what a server says of a change that it cannot print.
func unprintable(at string) []byte {
	e := pgproto3.ErrorResponse{
		Severity: "ERROR", Code: "XX000", Message: "invalid memory alloc request size 1200000003",
		Where: `slot "s", output plugin "pgoutput", in the change callback, associated LSN ` + at,
	}
	b, _ := e.Encode(nil)
	return b
}

// TestAnErrorAtTheSameRowNeedsAnOperator: the row stays as it is in the log, so trying again does not help.
func TestAnErrorAtTheSameRowNeedsAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newVirtualWalsender(t, visit{stream: unprintable("0/70")}, visit{stream: unprintable("0/80")},
			visit{stream: unprintable("0/80")}, visit{stream: unprintable("0/80")})
		streams := 0
		err := Run(t.Context(), w.config(nothingConfirmed), func(ctx context.Context, s *Stream) error {
			streams++
			return drain(ctx, s)
		})
		require.Equal(t, 4, streams, "another row begins the count again")
		require.Equal(t, fault.Operator, fault.KindOf(err))
		var f *fault.Error
		require.True(t, errors.As(err, &f))
		require.Equal(t, "0/80", f.At)
		require.Equal(t, []string{"cdc-outbox slot advance --to LSN --yes-lose-events", "cdc-outbox repair"},
			f.Commands)
	})
}

// TestAByteaTooLongToPrintNeedsAnOperator: 540 MB of bytea are 1.08 GB of text, more than the server allocates at once.
//
// Bug (stream): An internal error of the server about one row was tried again permanently. Cost: no event after it
// arrived, and no remedy was named.
func TestAByteaTooLongToPrintNeedsAnOperator(t *testing.T) {
	src := newSource(t, testkit.Postgres(t))
	src.Exec(t, `ALTER TABLE outbox ADD COLUMN long bytea; ALTER TABLE outbox ALTER COLUMN long SET STORAGE EXTENDED`)
	src.Exec(t, `INSERT INTO outbox
		SELECT 1, 'a', half || half FROM decode(repeat('00', 270000000), 'hex') AS half`)
	err := Run(t.Context(), src.Config, drain)
	require.Equal(t, fault.Operator, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "invalid memory alloc request size")
	require.ErrorContains(t, err, "cdc-outbox repair")
}
