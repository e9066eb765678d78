package service

import (
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// publishes is the Kafka that an attempt publishes to, for the account of gaps.
type publishes struct {
	connector *connector.Connector
	cluster   *wire.Identity
	ends      *kafka.LogEnds
}

// Kafka takes over the last account as long as the slot may be another instance's.
func (p publishes) Kafka(last gap.Kafka) gap.Kafka {
	if p.connector.Status().State.Name != relay.Streaming {
		p.ends.Expect(last.ID, last.Ends)
		return last
	}
	now := gap.Kafka{ID: p.cluster.ID()}
	ends, lost := p.ends.Account(now.ID)
	now.Ends = ends
	for _, l := range lost {
		now.Lost = append(now.Lost, gap.Lost(l))
	}
	return now
}

// Kept takes losses out of the producer's account.
func (p publishes) Kept(lost []gap.Lost) {
	settled := make([]kafka.LostRecords, len(lost))
	for i := range lost {
		settled[i] = kafka.LostRecords(lost[i])
	}
	p.ends.Settled(settled)
}
