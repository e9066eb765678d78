package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/rabbitmq"
)

// broker is the connection of an attempt to the broker.
type broker struct {
	open         sink.Open
	transactions bool        // the position is stored in a transaction with the records
	keeper       sink.Keeper // nil: none is needed

	publishes func(*connector.Connector) publishes // the account of gaps of a connector that publishes there
}

// broker opens nothing.
func (p *process) broker(metrics *telemetry.Metrics, registry prometheus.Registerer) (broker, error) {
	c, exactlyOnce := p.Config, p.Config.Delivery == "exactly_once"
	reconnected := func() { metrics.Reconnected(telemetry.Kafka) }
	if c.Sink == config.SinkNATS {
		stream := &nats.Identity{}
		open := nats.Open(nats.Config{
			Cluster: wiring.NATS(c), ExactlyOnce: exactlyOnce, Identity: stream, Logger: p.Logger,
			Reconnected: reconnected,
		})
		return broker{open: open, publishes: func(c *connector.Connector) publishes {
			return publishesToStream{connector: c, stream: stream}
		}}, nil
	}
	if c.Sink == config.SinkRabbitMQ {
		open := rabbitmq.Open(rabbitmq.Config{
			Cluster: wiring.RabbitMQ(c), Logger: p.Logger, Reconnected: reconnected,
		})
		return broker{open: open, publishes: func(*connector.Connector) publishes {
			return publishesToExchange{}
		}}, nil
	}
	producer, err := wiring.Kafka(c)
	if err != nil {
		return broker{}, err
	}
	ends := &kafka.LogEnds{}
	producer.Logger, producer.Registerer, producer.Ends = p.Logger, registry, ends
	producer.Owned, producer.Reconnected = true, reconnected
	b := broker{transactions: exactlyOnce, publishes: func(c *connector.Connector) publishes {
		return publishesToKafka{c, producer.Cluster, ends}
	}}
	if exactlyOnce {
		producer.Transactions = &kafka.Transactions{Instance: instance()}
	} else {
		b.keeper = kafka.NewKeeper(producer.Cluster, p.Logger)
	}
	b.open = kafka.Open(producer)
	return b, nil
}
