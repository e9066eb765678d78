package inbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

func TestLongestValuesFit(t *testing.T) {
	b := newBed(t)
	long := strings.Repeat("x", 512)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: strings.Repeat("c", 255), Strategy: inbox.Advisory})
	require.NoError(t, err)
	event := inbox.Event{ID: long, Source: strings.Repeat("s", 600)}
	require.NoError(t, in.Handle(t.Context(), event, effect("long", "")))
	require.ErrorIs(t, in.Handle(t.Context(), inbox.Event{ID: long}, effect("long", "")), inbox.ErrDuplicate)
}

// A second instance starts while a handler of the first is at work.
func TestSchemaDoesNotWaitForHandlers(t *testing.T) {
	b := newBed(t)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "c"})
	require.NoError(t, err)
	ddl, err := inbox.Schema(inbox.Options{})
	require.NoError(t, err)
	require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, func(context.Context, pgx.Tx) error {
		b.Exec(t, "SET lock_timeout = '1s'; "+ddl)
		return nil
	}))
	require.Equal(t, 1, b.count(t, "pg_indexes WHERE indexname = 'processed_events_claimed_at_idx'"))
}
