package relay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/router"
)

func TestStateTo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := now.Add(-time.Hour)
	failed := State{Name: Reconnecting, Reason: "no", Next: "do", Commands: []string{"it"}, Since: before}
	for name, c := range map[string]struct{ from, to, want State }{
		"a new state begins now": {failed, State{Name: Streaming}, State{Name: Streaming, Since: now}},
		"or when it says": {
			failed,
			State{Name: Halted, Since: before},
			State{Name: Halted, Since: before},
		},
		"the same state keeps its beginning": {
			failed,
			State{Name: Reconnecting, Reason: "why"},
			State{Name: Reconnecting, Reason: "why", Since: before},
		},
		"and its reason where there is no new": {failed, State{Name: Reconnecting}, failed},
		"draining is not left": {
			State{Name: Draining, Since: before},
			State{Name: Streaming},
			State{Name: Draining, Since: before},
		},
		"but for the end": {
			State{Name: Draining, Since: before},
			State{Name: Stopped},
			State{Name: Stopped, Since: now},
		},
	} {
		require.Equal(t, c.want, c.from.To(c.to, now), name)
	}
}

func TestPolicies(t *testing.T) {
	require.Equal(t, Halt, Policies{}.For("no_topic"))
	p := Policies{Default: Skip, Groups: map[router.Group]Policy{
		router.GroupTooLarge: DeadLetter,
		router.GroupNullKey:  "",
	}}
	require.Equal(t, DeadLetter, p.Of(router.GroupTooLarge))
	require.Equal(t, Skip, p.Of(router.GroupNullKey), "empty means the default")
}
