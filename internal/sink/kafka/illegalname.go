package kafka

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// A topic may not be created under a name that differs from another topic's in "." and "_" only: the names of their
// metrics would be the same (Topic.hasCollision). Nothing that is waited for changes that, so the record is refused.

// refusedName is the brokers' refusal of a topic's name.
type refusedName struct {
	why string // the brokers' words; empty: the name is not refused, as far as is known
	at  time.Time
}

// refuseName takes the brokers' refusal of the topic's name.
func (p *Producer) refuseName(t *topic, why string) {
	t.refusedName = refusedName{why, time.Now()}
	t.trouble.resolve(&p.troubles) // the record has it from here on
	p.placeAll(t)
	p.announce()
}

// nameRefused returns a RefusedError for a record of a topic whose name was refused lately. The other topic may have
// been deleted since, so the creation is tried again now and then.
func (t *topic) nameRefused(lately time.Duration) error {
	if n := &t.refusedName; n.why != "" && time.Since(n.at) < lately {
		return &sink.RefusedError{Topic: t.name, Reason: sink.IllegalTopic, Why: n.why}
	}
	return nil
}
