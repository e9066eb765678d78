package inbox_test

import (
	"strings"
	"testing"

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
