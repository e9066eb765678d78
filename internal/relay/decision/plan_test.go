package decision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

const at100 = "0000000000000064-00000001"

func ids(all []*Decision) (n []int64) {
	for _, d := range all {
		n = append(n, d.ID)
	}
	return n
}

func TestPlan(t *testing.T) {
	now := time.Now()
	here := []*relay.HaltedRow{{Position: at100, EventID: "a"}}
	halted := Decision{ID: 1, Kind: Halted, Position: at100, EventID: "a"}
	pass := Decision{ID: 2, Kind: Pass, Position: at100, EventID: "a", Action: relay.Skip}
	taken, closed := pass, pass
	taken.TakenAt = &now
	closed.TakenAt, closed.ClosedAt = &now, &now
	other := Decision{ID: 3, Kind: Pass, Position: at100, EventID: "b"}
	pause, resume := Decision{ID: 4, Kind: Pause}, Decision{ID: 5, Kind: Resume}

	met := View{Holds: true, Halted: here}
	for name, c := range map[string]struct {
		rows   []Decision
		view   View
		insert int
		take   []int64
		apply  []int64
		close  []int64
		pause  int64
	}{
		"halted, not listed":     {view: View{Holds: true, Halted: here}, insert: 1},
		"halted, listed":         {rows: []Decision{halted}, view: View{Holds: true, Halted: here}},
		"listed, not halted":     {rows: []Decision{halted}, view: View{Holds: true}, close: []int64{1}},
		"a waiting instance":     {rows: []Decision{halted, pass}, view: View{Halted: here}},
		"decided":                {[]Decision{halted, pass}, met, 0, []int64{2}, []int64{2}, nil, 0},
		"met again after a kill": {[]Decision{halted, taken}, met, 0, nil, []int64{2}, nil, 0},
		"met again when closed":  {[]Decision{halted, closed}, met, 0, nil, []int64{2}, nil, 0},
		"about another event":    {rows: []Decision{halted, other}, view: View{Holds: true, Halted: here}},
		"applied, not confirmed": {rows: []Decision{taken}, view: View{Holds: true, Confirmed: 100}},
		"confirmed":              {rows: []Decision{taken}, view: View{Holds: true, Confirmed: 101}, close: []int64{2}},
		"paused":                 {rows: []Decision{pause}, view: View{Holds: true}, take: []int64{4}, pause: 4},
		"paused, waiting":        {rows: []Decision{pause}, pause: 4},
		"resumed": {
			rows: []Decision{pause, resume}, view: View{Holds: true}, take: []int64{4, 5}, close: []int64{4, 5},
		},
		"resumed, waiting": {rows: []Decision{pause, resume}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Plan(c.rows, c.view)
			require.Len(t, s.Insert, c.insert)
			require.Equal(t, c.take, ids(s.Take))
			require.Equal(t, c.apply, ids(s.Apply))
			require.Equal(t, c.close, s.Close)
			if c.pause == 0 {
				require.Nil(t, s.Pause)
			} else {
				require.Equal(t, c.pause, s.Pause.ID)
			}
		})
	}
}

// Several processes poll: each lists and closes its own rows, and closes the rows of a process that no longer exists.
func TestPlanOfSeveralProcesses(t *testing.T) {
	now := time.Now()
	row := []*relay.HaltedRow{{Position: "seq-1", EventID: "a"}}
	mine := Decision{ID: 1, Kind: Halted, Position: "seq-1", EventID: "a", From: "me"}
	theirs := Decision{ID: 2, Kind: Halted, Position: "seq-1", EventID: "a", From: "another"}
	pass := Decision{ID: 3, Kind: Pass, Position: "seq-1", EventID: "a", Action: relay.Skip}
	by := func(d Decision, who string, idle time.Duration) Decision {
		d.TakenAt, d.TakenBy, d.idle = &now, who, idle
		return d
	}
	for name, c := range map[string]struct {
		rows   []Decision
		halted []*relay.HaltedRow
		want   Steps
	}{
		"my row is over":              {[]Decision{mine}, nil, Steps{Close: []int64{1}}},
		"another's row":               {[]Decision{theirs}, nil, Steps{}},
		"another's row, abandoned":    {[]Decision{by(theirs, "", time.Hour)}, nil, Steps{Close: []int64{2}}},
		"another has listed it":       {[]Decision{theirs}, row, Steps{}},
		"I am still there":            {[]Decision{by(mine, "", time.Minute)}, row, Steps{Seen: []int64{1}}},
		"a decision for another":      {[]Decision{pass}, nil, Steps{}},
		"what another took up":        {[]Decision{by(pass, "another", time.Second)}, nil, Steps{}},
		"what I took up, and is over": {[]Decision{by(pass, "me", time.Second)}, nil, Steps{Close: []int64{3}}},
		"what no process took up":     {[]Decision{by(pass, "", time.Hour)}, nil, Steps{Close: []int64{3}}},
		"what another took up, for me": {
			[]Decision{mine, by(pass, "another", 0)}, row, Steps{Apply: []*Decision{{ID: 3}}},
		},
		"what another took up and died": {[]Decision{by(pass, "another", time.Hour)}, nil, Steps{Close: []int64{3}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Plan(c.rows, View{Holds: true, Halted: c.halted, Process: "me"})
			require.Equal(t, c.want.Close, s.Close)
			require.Equal(t, c.want.Seen, s.Seen)
			require.Empty(t, s.Insert)
			require.Equal(t, ids(c.want.Apply), ids(s.Apply))
		})
	}
}

// The last word counts, and a polled row has no position in the log.
func TestPlanTakesTheLastDecision(t *testing.T) {
	rows := []Decision{
		{ID: 1, Kind: Pass, Position: at100, EventID: "a", Action: relay.DeadLetter},
		{ID: 2, Kind: Pass, Position: at100, EventID: "a", Action: relay.Skip},
	}
	s := Plan(rows, View{Holds: true, Halted: []*relay.HaltedRow{{Position: at100, EventID: "a"}}})
	require.Equal(t, []int64{2}, ids(s.Apply))
	require.True(t, passed("seq-00000000000000000007", 0))
	require.False(t, passed("nonsense", 1<<60))
}

func TestFindBindsOneRow(t *testing.T) {
	rows := []Decision{{ID: 1, Kind: Halted, Position: at100, EventID: "a"}}
	for _, name := range []string{"a", at100} {
		d, err := find(rows, name)
		require.NoError(t, err)
		require.EqualValues(t, 1, d.ID)
	}
	_, err := find(rows, "b")
	require.ErrorContains(t, err, "halted at another row: event a")
	_, err = find(nil, "b")
	require.ErrorContains(t, err, "not halted at any row")
	_, err = find([]Decision{{Kind: Halted, Position: at100}}, "")
	require.Error(t, err, "an empty name names nothing")
}
