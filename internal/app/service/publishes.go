package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
)

// publishes is the destination of a connector, for the account of gaps.
type publishes interface {
	gap.Publisher
	// lookAtEnds compares what was written with the broker's account, until ctx ends.
	lookAtEnds(ctx context.Context, every time.Duration, log *zap.Logger) error
}

// withoutEnds is for a destination whose account has no ends of partitions, so no losses to compare.
type withoutEnds struct{}

// Kept has nothing to take.
func (withoutEnds) Kept([]gap.Lost) {}

func (withoutEnds) lookAtEnds(context.Context, time.Duration, *zap.Logger) error { return nil }

// publishesToStream knows a stream by its identity alone: the producer compares its end at each message.
type publishesToStream struct {
	withoutEnds
	connector *connector.Connector
	stream    *nats.Identity
}

// Kafka takes over the last account as long as the slot may be another instance's.
func (p publishesToStream) Kafka(last gap.Kafka) gap.Kafka {
	if p.connector.Status().State.Name != relay.Streaming {
		return last
	}
	return gap.Kafka{ID: p.stream.ID()}
}

// publishesToExchange knows nothing of the broker: RabbitMQ has no identity, and does not show what it has stored.
type publishesToExchange struct{ withoutEnds }

// Kafka leaves the account as it is.
func (publishesToExchange) Kafka(last gap.Kafka) gap.Kafka { return last }

// publishesToKafka knows the cluster, and the ends of the partitions that were written to.
type publishesToKafka struct {
	connector *connector.Connector
	cluster   wire.Cluster
	ends      *kafka.LogEnds
}

// Kafka takes over the last account as long as the slot may be another instance's.
func (p publishesToKafka) Kafka(last gap.Kafka) gap.Kafka {
	if p.connector.Status().State.Name != relay.Streaming {
		p.ends.Expect(last.ID, last.Ends)
		return last
	}
	now := gap.Kafka{ID: p.cluster.Identity.ID()}
	ends, lost := p.ends.Account(now.ID)
	now.Ends = ends
	for _, l := range lost {
		now.Lost = append(now.Lost, gap.Lost(l))
	}
	return now
}

// lookAtEnds compares the ends of partitions with the brokers', until ctx ends: records of a partition to which nothing
// is written any more may be lost, too. It asks less often than the account is written.
func (p publishesToKafka) lookAtEnds(ctx context.Context, every time.Duration, log *zap.Logger) error {
	k, err := reader.New(p.cluster)
	if err != nil {
		return err
	}
	defer k.Close()
	tick := time.NewTicker(endsFactor * every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		id := p.cluster.Identity.ID()
		before, _ := p.ends.Account(id)
		if p.connector.Status().State.Name != relay.Streaming || id == "" || len(before) == 0 {
			continue
		}
		listed, err := k.Ends(ctx, slices.Sorted(maps.Keys(before)))
		if err != nil {
			log.Debug("the ends of partitions could not be read", zap.Error(err))
			continue
		}
		for _, lost := range p.ends.Listed(id, before, listed) {
			lost.Report(log)
		}
	}
}

// endsFactor is how many checks go by before the brokers are asked: with many topics the answers are large.
const endsFactor = 3

// Kept takes losses out of the producer's account.
func (p publishesToKafka) Kept(lost []gap.Lost) {
	settled := make([]kafka.LostRecords, len(lost))
	for i := range lost {
		settled[i] = kafka.LostRecords(lost[i])
	}
	p.ends.Settled(settled)
}
