package polling

import (
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Promises weakens a broker's promises: lanes are claimed in Postgres, and no broker knows their owner.
func Promises(of sink.Promises) sink.Promises {
	weaker := map[string]string{
		sink.PromiseOrder: "The first appearances of the events of a key are in the order of their sequence. A " +
			"repeat may come after newer events.",
		sink.PromiseRepeats: "After a crash, and after a claim that was lost while events were in flight: those " +
			"events.",
		sink.PromiseInstances: "All work. Nothing refuses what an instance sends that was frozen and has lost its " +
			"claims.",
	}
	all := slices.Clone(of)
	for i := range all {
		if text := weaker[all[i].Of]; text != "" {
			all[i].Text = text
		}
	}
	return all
}
