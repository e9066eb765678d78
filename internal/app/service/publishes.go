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
)

// publishes is the broker that an attempt publishes to, for the account of gaps.
type publishes struct {
	connector *connector.Connector
	broker
}

// Kafka takes over the last account as long as the slot may be another instance's. Of a stream, the account is its
// identity alone: the producer compares its end at each message.
func (p publishes) Kafka(last gap.Kafka) gap.Kafka {
	streaming := p.connector.Status().State.Name == relay.Streaming
	switch {
	case p.stream != nil && streaming:
		return gap.Kafka{ID: p.stream.ID()}
	case p.stream != nil:
		return last
	case !streaming:
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
func (p publishes) lookAtEnds(ctx context.Context, every time.Duration, log *zap.Logger) error {
	if p.stream != nil {
		return nil
	}
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
func (p publishes) Kept(lost []gap.Lost) {
	if p.stream != nil {
		return
	}
	settled := make([]kafka.LostRecords, len(lost))
	for i := range lost {
		settled[i] = kafka.LostRecords(lost[i])
	}
	p.ends.Settled(settled)
}
