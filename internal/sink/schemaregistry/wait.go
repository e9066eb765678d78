package schemaregistry

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Waits returns the wait of the rows whose schemas are not known, while the registry gives no answer.
func (g *Registry) Waits() []fault.Wait {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var first *sink.Trouble
	now := time.Now()
	others := 0
	for need, q := range g.asked {
		cause := q.err
		if cause == nil {
			cause = g.err
		}
		if cause == nil || q.waiting == 0 && now.Sub(q.last) > longestPause {
			continue // the row was deleted, or another process has it
		}
		if others++; first != nil && !q.since.Before(first.Since) {
			continue
		}
		first = &sink.Trouble{
			Kind: sink.RegistryRefuses, Object: cause.Object, Since: q.since, Remedy: cause.Next,
			Sentence: fmt.Sprintf("rows wait for the id of subject %q, version %s: %s", fault.Printable(need.Subject),
				need.Version, cause.Err.Error()),
		}
		if cause.Schema {
			first.Sentence = "rows wait: " + cause.Err.Error()
		}
		if cause.Passes {
			first.Kind = sink.RegistryUnreachable
		}
	}
	if first == nil {
		return nil
	}
	if others > 1 {
		first.Sentence += fmt.Sprintf(" (and %d more)", others-1)
	}
	return []fault.Wait{first.Wait()}
}
