package pair

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	atLeastOnce = rules{
		fenced: true, claim: true, abandon: true, wait: true, inside: true, recall: true, reread: true, holds: true,
		yield: true,
	}
	exactlyOnce = rules{
		once: true, claim: true, abandon: true, wait: true, inside: true, outside: true, recall: true, reread: true,
		holds: true, evidence: true, yield: true,
	}
	oneStream = rules{
		once: true, claim: true, abandon: true, wait: true, inside: true, recall: true, reread: true, holds: true,
		evidence: true, yield: true,
		stream: streamRules{on: true, sequence: true, chain: true, position: true, settle: true, compare: true},
	}
)

// underRace is set by race_test.go: each search has one goroutine, and the race detector makes it only slower.
var underRace bool

// limits bound the searches: PAIR_MODEL=full takes minutes, -short moments.
func limits(full bounds) bounds {
	if os.Getenv("PAIR_MODEL") == "full" {
		return full
	}
	if underRace || testing.Short() {
		return bounds{commits: 1, faults: 1}
	}
	return bounds{commits: 2, faults: 2}
}

// TestModel: every promise holds in every state.
func TestModel(t *testing.T) {
	for name, r := range map[string]rules{
		"at least once": atLeastOnce, "exactly once": exactlyOnce, "a stream of JetStream": oneStream,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, bound := time.Now(), limits(bounds{commits: 3, faults: 2})
			s := search{rules: r, bound: bound}
			if bad := s.run(); bad != nil {
				t.Fatalf("%d states\n%s", len(s.all), bad.tell(r, bound))
			}
			t.Logf("%d states, %s", len(s.all), time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestModelRefutes: the model notices each rule that is missing, by the promise that the rule keeps.
func TestModelRefutes(t *testing.T) {
	if underRace {
		t.Skip("each search has one goroutine")
	}
	for _, m := range []struct {
		name   string
		from   rules
		change func(*rules)
		breaks string
		three  bool // events are needed to see it
		large  bool // the search takes seconds
	}{
		{
			"at least once, no instance is fenced", atLeastOnce,
			func(r *rules) { r.fenced = false }, "OL", false, true,
		},
		{
			"at least once, one claim in a life", atLeastOnce,
			func(r *rules) { r.claim = false }, "OL", false, true,
		},
		{"at least once, ended when fenced", atLeastOnce, func(r *rules) { r.wait = false }, "E", false, false},
		{
			"at least once, nothing compared", atLeastOnce,
			func(r *rules) { r.inside, r.reread = false, false }, "SL", false, false,
		},
		{"at least once, rights forgotten", atLeastOnce, func(r *rules) { r.recall = false }, "E", false, false},
		{
			"at least once, positions beyond the row kept", atLeastOnce,
			func(r *rules) { r.reread = false }, "SL", false, false,
		},
		{
			"at least once, back to what it knew", atLeastOnce,
			func(r *rules) { r.yield = false }, "OL", true, true,
		},
		{
			"at least once, the row written anywhere", atLeastOnce,
			func(r *rules) { r.holds = false }, "SL", false, false,
		},
		{
			"exactly once, the position believed", exactlyOnce,
			func(r *rules) { r.evidence = false }, "SL", false, false,
		},
		{
			"exactly once, one claim in a life", exactlyOnce,
			func(r *rules) { r.claim = false }, "EDL", false, false,
		},
		{"exactly once, ended when fenced", exactlyOnce, func(r *rules) { r.wait = false }, "E", false, false},
		{
			"exactly once, nothing compared", exactlyOnce,
			func(r *rules) { r.outside, r.evidence = false, false }, "SL", false, false,
		},
		{"exactly once, rights forgotten", exactlyOnce, func(r *rules) { r.recall = false }, "E", false, false},
		{"a stream, no condition", oneStream, func(r *rules) { r.stream.sequence = false }, "OD", false, false},
		{"a stream, the sequence alone", oneStream, func(r *rules) { r.stream.chain = false }, "OD", true, true},
		{"a stream, the position not read", oneStream, func(r *rules) { r.stream.position = false }, "D", false, false},
		{"a stream, the position believed", oneStream, func(r *rules) { r.evidence = false }, "SL", false, false},
		{"a stream, sent again unasked", oneStream, func(r *rules) { r.stream.settle = false }, "D", false, false},
		{"a stream, any message counts", oneStream, func(r *rules) { r.stream.compare = false }, "OSL", true, true},
		{"a stream, one claim in a life", oneStream, func(r *rules) { r.claim = false }, "EDLO", false, false},
	} {
		t.Run(m.name, func(t *testing.T) {
			if m.large && testing.Short() {
				t.Skip("hundreds of thousands of states; run without -short")
			}
			t.Parallel()
			r := m.from
			m.change(&r)
			refute(t, r, m.three, m.breaks)
		})
	}
}

// refute wants a promise to be broken, one of those whose letters breaks has.
func refute(t *testing.T, r rules, three bool, breaks string) {
	bound := bounds{commits: 2, faults: 2}
	if three {
		bound.commits = 3
	}
	s := search{rules: r, bound: bound}
	bad := s.run()
	require.NotNil(t, bad, "the model did not notice")
	t.Logf("%d states\n%s", len(s.all), bad.tell(r, bound))
	require.Contains(t, breaks, strings.Split(bad.what, ":")[0])
}
