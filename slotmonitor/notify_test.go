package slotmonitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNotifier(t *testing.T) {
	n := newNotifier()
	now := start
	step := func(after time.Duration, level Level) []notice {
		now = now.Add(after)
		return n.add([]Slot{{Name: "s", Level: level}}, now)
	}
	require.Empty(t, step(0, OK), "a healthy slot is nothing to tell")
	require.Len(t, step(time.Second, Warn), 1, "worse is told at once")
	require.Empty(t, step(time.Second, Warn))
	require.Equal(t, Critical, step(time.Second, Critical)[0].level)
	require.Empty(t, step(time.Second, Warn), "better only after a calm minute")
	require.Empty(t, step(30*time.Second, Critical), "it was not calm")
	require.Empty(t, step(40*time.Second, OK))
	require.Empty(t, step(19*time.Second, OK))
	got := step(time.Second, OK)
	require.Len(t, got, 1)
	require.Equal(t, OK, got[0].level)

	require.Len(t, step(time.Second, Warn), 1)
	for range 3599 {
		require.Empty(t, step(time.Second, Warn))
	}
	got = step(time.Second, Warn)
	require.Len(t, got, 1, "hourly what stays")
	require.True(t, got[0].repeated)
	require.Empty(t, step(time.Second, Warn))

	got = n.add(nil, now)
	require.Len(t, got, 1)
	require.True(t, got[0].gone)
	require.Empty(t, n.add(nil, now))
	require.Empty(t, n.slots)
}

func TestNotifierTellsOfASlotBadFromTheStart(t *testing.T) {
	require.Len(t, newNotifier().add([]Slot{{Name: "s", Level: Critical}}, start), 1)
}
