package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

const someID = "018f4d3c-0000-7000-8000-000000000001"

func paid() outbox.Event {
	return outbox.Event{
		ID: someID, AggregateType: "order", AggregateID: "42", Type: "order_paid", Payload: map[string]int{"total": 12},
	}
}

func manyHeaders(n, bytes int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("h%03d", i)] = strings.Repeat("x", bytes)
	}
	return m
}

func standard(t *testing.T) *outbox.Outbox {
	t.Helper()
	o, err := outbox.New(outbox.Options{})
	require.NoError(t, err)
	return o
}

// recorder is a transaction that keeps the arguments of a statement instead of running it.
type recorder struct {
	pgx.Tx
	args []any
}

func (*recorder) Conn() *pgx.Conn { return nil }

func (r *recorder) Exec(_ context.Context, _ string, args ...any) (pgconn.CommandTag, error) {
	r.args = args
	return pgconn.CommandTag{}, nil
}

// insertedRow returns the values that Insert sends for an event, in the order of the columns, nil for NULL.
func insertedRow(t *testing.T, o *outbox.Outbox, e outbox.Event) (row [7]*string) {
	t.Helper()
	var r recorder
	require.NoError(t, o.Insert(t.Context(), &r, e))
	require.Len(t, r.args, len(row))
	for i, arg := range r.args {
		row[i] = onlyElement(t, arg)
	}
	return row
}

// emittedMessage returns the content of the message that Emit writes for an event.
func emittedMessage(t *testing.T, o *outbox.Outbox, e outbox.Event) string {
	t.Helper()
	var r recorder
	require.NoError(t, o.Emit(t.Context(), &r, e))
	require.Len(t, r.args, 2)
	return *onlyElement(t, r.args[1])
}

// onlyElement reads the text form of an array of one element, with pgx's own reader.
func onlyElement(t *testing.T, array any) *string {
	t.Helper()
	var elements []*string
	text := []byte(array.(string))
	require.NoError(t, pgtype.NewMap().Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, text, &elements))
	require.Len(t, elements, 1)
	return elements[0]
}
