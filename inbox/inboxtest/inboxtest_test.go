package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

func numbered(n int) (ms []consumer.Message) {
	for i := range n {
		ms = append(ms, Event(fmt.Sprint(i), "counted", "k", []byte("{}")))
	}
	return ms
}

func ids(ms []consumer.Message) (all []string) {
	for i := range ms {
		all = append(all, ms[i].ID)
	}
	return all
}

// First appearances are in order, every repeat is a part of what came before, and offsets grow.
func TestRepeat(t *testing.T) {
	ms := numbered(20)
	repeated := 0
	for seed := range uint64(50) {
		out := Repeat(seed, ms)
		require.Equal(t, out, Repeat(seed, ms))
		var first []string
		next := 0
		for i, m := range out {
			require.EqualValues(t, i, m.Offset)
			if !slices.Contains(first, m.ID) {
				require.Equal(t, len(first), next, "a repeat goes on to where the partition was")
				first = append(first, m.ID)
				next = len(first)
				continue
			}
			at := slices.Index(first, m.ID)
			require.True(t, at == next || next == len(first), "parts come as a whole")
			next = at + 1
			repeated++
		}
		require.Equal(t, ids(ms), first)
	}
	require.Greater(t, repeated, 500)
	require.Empty(t, Repeat(1, nil))
	require.Zero(t, ms[5].Offset, "the messages given stay as they are")
}

func TestDeliver(t *testing.T) {
	boom := errors.New("boom")
	waits := []error{inbox.ErrContended, inbox.ErrLedger, inbox.ErrNotSent, consumer.Unavailable(boom)}
	for name, test := range map[string]struct {
		answers []error // to the first attempts; then nil
		calls   int
		dead    bool
	}{
		"handled":            {nil, 1, false},
		"a duplicate":        {[]error{fmt.Errorf("so: %w", inbox.ErrDuplicate)}, 1, false},
		"waits":              {waits, 5, false},
		"the third attempt":  {[]error{boom, boom}, 3, false},
		"a dead letter":      {[]error{boom, boom, boom}, 3, true},
		"one at once":        {[]error{consumer.Permanent(boom)}, 1, true},
		"waits do not count": {[]error{boom, inbox.ErrLedger, inbox.ErrLedger, boom}, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := map[string]int{}
				err := Deliver(t.Context(), func(_ context.Context, m consumer.Message) error {
					calls[m.ID]++
					if n := calls["a"]; m.ID == "a" && n <= len(test.answers) {
						return test.answers[n-1]
					}
					return nil
				}, Event("a", "", "k", nil), Event("b", "", "k", nil))
				require.Equal(t, map[string]int{"a": test.calls, "b": 1}, calls)
				var dead *DeadLetter
				require.Equal(t, test.dead, errors.As(err, &dead), "%v", err)
				if test.dead {
					require.Equal(t, "a", dead.Message.ID)
					require.ErrorIs(t, err, boom)
				}
			})
		})
	}
}

func TestDeliverEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Deliver(ctx, func(context.Context, consumer.Message) error { return inbox.ErrLedger }, numbered(2)...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, inbox.ErrLedger)
		var dead *DeadLetter
		require.NotErrorAs(t, err, &dead)
	})
}

// The bad record alone is a dead letter.
func TestDeliverBatch(t *testing.T) {
	boom := errors.New("boom")
	var sizes []int
	err := DeliverBatch(t.Context(), func(_ context.Context, ms []consumer.Message) error {
		sizes = append(sizes, len(ms))
		if slices.Contains(ids(ms), "4") {
			return consumer.Permanent(boom)
		}
		return nil
	}, 3, numbered(7)...)
	var dead *DeadLetter
	require.ErrorAs(t, err, &dead)
	require.Equal(t, "4", dead.Message.ID)
	require.Equal(t, []int{3, 3, 1, 1, 1, 1}, sizes)
}
