package simulation

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortened runs parts of a plan that failed, for at most SIMULATION_SHORTEN, and returns the shortest that fails in
// the same way.
func shortened(t *testing.T, p *Plan, res *Result) string {
	t.Helper()
	limit, err := time.ParseDuration(os.Getenv("SIMULATION_SHORTEN"))
	if err != nil {
		limit = 20 * time.Second
	}
	if limit <= 0 {
		return ""
	}
	until := time.Now().Add(limit)
	var found *Result
	q := shorten(p, func(q *Plan) bool {
		other := run(t, q, false)
		same := other.Failed() && other.Problems[0][:1] == res.Problems[0][:1]
		if same {
			found = other
		}
		return same
	}, func() bool { return time.Now().After(until) })
	if found == nil {
		return ""
	}
	return "shortened to " + strconv.Itoa(len(q.Steps)) + " of " + strconv.Itoa(len(p.Steps)) + " steps: " +
		q.replayCommand() + "\n" + found.String() + "\n" + q.String()
}

// chosen is the plan of a seed, or the steps of it that SIMULATION_STEPS names.
func chosen(t *testing.T, seed uint64) *Plan {
	t.Helper()
	p := planOf(seed)
	text, given := os.LookupEnv("SIMULATION_STEPS")
	if !given || text == "" {
		return p
	}
	var numbers []int
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		require.Less(t, n, len(p.Steps))
		numbers = append(numbers, n)
	}
	return p.Only(numbers)
}

// TestShorten finds the steps that a failure takes, among many.
func TestShorten(t *testing.T) {
	p := NewPlan(17, Now)
	for len(p.Steps) < 60 {
		p.Steps = append(p.Steps, p.Steps...)
	}
	n := len(p.Steps)
	for _, want := range [][]int{{n / 2}, {0, n - 1}, {3, 4, 5}, {1, n / 3, n / 2, n - 2}} {
		runs := 0
		q := shorten(p, func(q *Plan) bool {
			runs++
			have := map[int]bool{}
			for _, k := range q.kept {
				have[k] = true
			}
			for _, k := range want {
				if !have[k] {
					return false
				}
			}
			return true
		}, func() bool { return false })
		require.Equal(t, want, q.kept)
		require.Len(t, q.Steps, len(want))
		require.Less(t, runs, 4*n)
	}
	q := shorten(p, func(*Plan) bool { return true }, func() bool { return true })
	require.Len(t, q.Steps, n, "out of time at once")
}

// TestChosenSteps are the steps that the printed command names.
func TestChosenSteps(t *testing.T) {
	p := NewPlan(17, switches())
	q := p.Only([]int{1, 4})
	require.Equal(t, "make simulate SEED=17 STEPS=1,4", q.replayCommand())
	t.Setenv("SIMULATION_STEPS", "1,4")
	require.Equal(t, q.Steps, chosen(t, 17).Steps)
	require.Equal(t, "make simulate SEED=17", p.replayCommand())
}
