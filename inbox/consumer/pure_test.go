package consumer

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecentForgetsTheOldest(t *testing.T) {
	r := newRecent(2)
	for _, id := range []string{"a", "b", "b", "c"} {
		r.add(id)
	}
	require.False(t, r.has("a"))
	require.True(t, r.has("b"))
	require.True(t, r.has("c"))
	require.Len(t, r.ids, 2)
	none := newRecent(-1)
	none.add("a")
	require.False(t, none.has("a"))
}

func TestLongReasonsAreCut(t *testing.T) {
	l := letter{reason: strings.Repeat("x", maxReason-1) + "ä\xff"}
	require.Equal(t, strings.Repeat("x", maxReason-1)+"…", string(l.record("g", "t", time.Time{}).Headers[0].Value))
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Brokers: []string{"b"}, Group: "g", Topics: []string{"t"}}
	o, err := good.withDefaults()
	require.NoError(t, err)
	require.Equal(t, "t.DLT", o.DeadLetterTopic("t"))
	for name, change := range map[string]func(*Options){
		"no group":   func(o *Options) { o.Group = "" },
		"no topics":  func(o *Options) { o.Topics = nil },
		"no brokers": func(o *Options) { o.Brokers = nil },
		"long drain": func(o *Options) { o.Drain = time.Minute },
		"negative":   func(o *Options) { o.Budget = -1 },
		"pauses":     func(o *Options) { o.Pause = time.Hour },
	} {
		bad := good
		change(&bad)
		_, err := bad.withDefaults()
		require.Error(t, err, name)
	}
}
