package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

func TestForward(t *testing.T) {
	b := newBed(t)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "mail"})
	require.NoError(t, err)
	const limit = time.Minute
	answer := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	never := func(context.Context) error {
		t.Error("called again")
		return nil
	}
	older := func(id string) {
		b.Exec(t, "UPDATE processed_events SET claimed_at = now() - interval '3 minutes' WHERE event_id = '"+id+"'")
	}

	require.NoError(t, in.Forward(t.Context(), inbox.Event{ID: "a"}, limit, answer(nil)))
	require.ErrorIs(t, in.Forward(t.Context(), inbox.Event{ID: "a"}, limit, never), inbox.ErrDuplicate)

	require.ErrorIs(t, in.Forward(t.Context(), inbox.Event{ID: "b"}, limit, answer(inbox.ErrNotSent)), inbox.ErrNotSent)
	err = in.Forward(t.Context(), inbox.Event{ID: "b"}, limit, answer(nil))
	require.NoError(t, err, "the call had no effect, so it may be repeated")

	refused := errors.New("500")
	err = in.Forward(t.Context(), inbox.Event{ID: "c"}, limit, answer(refused))
	require.ErrorIs(t, err, inbox.ErrUnfinished)
	require.ErrorIs(t, err, refused)
	err = in.Forward(t.Context(), inbox.Event{ID: "c"}, limit, never)
	require.ErrorIs(t, err, inbox.ErrContended, "as far as the second delivery knows, the first is still running")
	older("c")
	require.ErrorIs(t, in.Forward(t.Context(), inbox.Event{ID: "c"}, limit, never), inbox.ErrUnfinished)
	require.ErrorIs(t, in.Handle(t.Context(), inbox.Event{ID: "c"}, effect("c", "")), inbox.ErrUnfinished)

	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, in.Forward(ctx, inbox.Event{ID: "d"}, limit, func(context.Context) error {
		cancel()
		return nil
	}))
	std, err := inbox.NewSQL(b.sql, inbox.Options{Consumer: "mail"})
	require.NoError(t, err)
	err = std.Forward(t.Context(), inbox.Event{ID: "d"}, limit, never)
	require.ErrorIs(t, err, inbox.ErrDuplicate, "the outcome is recorded even if the context has ended")
	require.Error(t, in.Forward(t.Context(), inbox.Event{ID: "e"}, 0, never))
}
