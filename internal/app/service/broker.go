package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
)

// broker is the way of an attempt to the broker, and what is known of it for the account of gaps.
type broker struct {
	open         sink.Open
	transactions bool        // the position is stored in a transaction with the records
	keeper       sink.Keeper // nil: none is needed

	cluster wire.Cluster   // Kafka's
	ends    *kafka.LogEnds // Kafka's

	stream *nats.Identity // nil with Kafka
}

// broker opens nothing.
func (p *process) broker(metrics *telemetry.Metrics, registry prometheus.Registerer) (broker, error) {
	c, exactlyOnce := p.Config, p.Config.Delivery == "exactly_once"
	reconnected := func() { metrics.Reconnected(telemetry.Kafka) }
	if c.Sink == config.SinkNATS {
		b := broker{stream: &nats.Identity{}}
		b.open = nats.Open(nats.Config{
			Cluster: wiring.NATS(c), ExactlyOnce: exactlyOnce, Identity: b.stream, Logger: p.Logger,
			Reconnected: reconnected,
		})
		return b, nil
	}
	producer, err := wiring.Kafka(c)
	if err != nil {
		return broker{}, err
	}
	b := broker{transactions: exactlyOnce, cluster: producer.Cluster, ends: &kafka.LogEnds{}}
	producer.Logger, producer.Registerer, producer.Ends = p.Logger, registry, b.ends
	producer.Owned, producer.Reconnected = true, reconnected
	if exactlyOnce {
		producer.Transactions = &kafka.Transactions{Instance: instance()}
	} else {
		b.keeper = kafka.NewKeeper(producer.Cluster, p.Logger)
	}
	b.open = kafka.Open(producer)
	return b, nil
}
