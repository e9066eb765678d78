package kafka

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// A topic may not be created under a name that differs from another topic's in "." and "_" only: the names of their
// metrics would be the same (Topic.hasCollision). Nothing that is waited for changes that, so the record is refused.

// illegalName is why a record of a topic that cannot be created is not sent.
var illegalName = wire.Verdict{Code: -6, Name: "ILLEGAL_NAME", Action: wire.Rewind, Trouble: sink.Rejected}

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

// reportIllegalName words the trouble of such a record.
func (t *topic) reportIllegalName() (sentence string, remedy fault.Remedy) {
	return fmt.Sprintf("The topic cannot be created under this name (%s).", t.refusedName.why),
		fault.Do("Correct what makes the topic's name, or let router.bad_rows.unroutable decide about such rows. If " +
			"the other topic is not needed, delete it: this one is then created within a minute.")
}
