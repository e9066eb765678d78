package simulation

import "strings"

// Now is what the relay is held to: everything.
var Now = Switches{Pairs: true, ExactlyOnce: true, Stale: true}

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
