package simulation

import (
	"fmt"
	"slices"
	"strings"
)

// Only returns the plan with some of its steps, by number.
func (p *Plan) Only(numbers []int) *Plan {
	q := *p
	q.Steps, q.kept = nil, slices.Clone(numbers)
	for _, n := range numbers {
		q.Steps = append(q.Steps, p.Steps[n])
	}
	return &q
}

// replayCommand prints what runs exactly this plan again.
func (p *Plan) replayCommand() string {
	command := fmt.Sprintf("make simulate SEED=%d", p.Seed)
	if p.Polling > 0 {
		command += " SOURCE=polling"
	}
	if p.kept == nil {
		return command
	}
	var numbers []string
	for _, n := range p.kept {
		numbers = append(numbers, fmt.Sprint(n))
	}
	return command + " STEPS=" + strings.Join(numbers, ",")
}

// shorten looks for the fewest steps with which the plan still fails: it leaves out halves, then quarters, and so on
// down to single steps, until no step can be left out. fails reports whether a plan has the same finding. It ends early
// when over says so, and returns the shortest plan so far.
func shorten(p *Plan, fails func(*Plan) bool, over func() bool) *Plan {
	kept := make([]int, len(p.Steps))
	for i := range kept {
		kept[i] = i
	}
	for size := max(1, (len(kept)+1)/2); ; size = (size + 1) / 2 {
		removed := false
		for from := 0; from < len(kept); {
			if over() {
				return p.Only(kept)
			}
			rest := slices.Concat(kept[:from], kept[min(from+size, len(kept)):])
			if fails(p.Only(rest)) {
				kept, removed = rest, true
			} else {
				from += size
			}
		}
		if size == 1 && !removed {
			return p.Only(kept)
		}
	}
}
