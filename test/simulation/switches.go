package simulation

import "strings"

// Now is what the relay is held to: everything but a server that is put back to a snapshot, of which some seeds still
// fail (SIMULATION_WITH=restore, seeds 1299 and 1700): what was committed to Kafka since the row was written last, and
// a restore that a live process meets within moments.
var Now = Switches{Pairs: true, ExactlyOnce: true, Stale: true, Without: map[Kind]bool{Restore: true}}

// With adds forms and faults by name, separated by commas: pairs, stale, or a kind of step.
func (sw Switches) With(names string) Switches {
	without := map[Kind]bool{}
	for kind, is := range sw.Without {
		without[kind] = is
	}
	sw.Without = without
	for name := range strings.SplitSeq(names, ",") {
		switch name {
		case "pairs":
			sw.Pairs = true
		case "stale":
			sw.Stale = true
		default:
			sw.Without[Kind(name)] = false
		}
	}
	return sw
}
