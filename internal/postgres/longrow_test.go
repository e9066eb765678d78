package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// TestLengthsOfNoRow: a length that no row of PostgreSQL has is an error of the line, which passes.
//
// Bug (configuration): A message of Postgres with a nonsensical length was taken for a row beyond window.row. Cost:
// exit code 3, which units do not restart, and advice about a row that does not exist.
func TestLengthsOfNoRow(t *testing.T) {
	none := &pgproto3.ExceededMaxBodyLenErr{MaxExpectedBodyLen: login.MaxMessage, ActualBodyLen: 10 << 20}
	require.Equal(t, fault.Retry, fault.KindOf(QueryFault("table outbox", none)))
	for bytes, want := range map[int]fault.Kind{
		2 << 20: fault.Operator, 1<<30 - 1: fault.Operator, 1 << 30: fault.Retry, 1<<31 - 1: fault.Retry,
	} {
		long := &pgproto3.ExceededMaxBodyLenErr{MaxExpectedBodyLen: 1 << 20, ActualBodyLen: bytes}
		err := fmt.Errorf("receive: %w", long)
		require.Equal(t, want, fault.KindOf(QueryFault("table outbox", err)), bytes)
	}
}
