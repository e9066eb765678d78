package wiring

import (
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
)

// Reader reads the broker that the connector publishes to. It is an error if that cannot be read back.
func Reader(c *config.Loaded) (sink.OpenReader, error) {
	switch c.Sink {
	case config.SinkNATS:
		return nats.OpenReader(NATS(c)), nil
	case config.SinkRabbitMQ:
		return nil, &fault.Error{
			Kind: fault.Config, Object: "sink",
			Err: errors.New("this reads what was published, and a queue of RabbitMQ is only read by taking its " +
				"messages away"),
			Next: "See what to do instead: docs/rabbitmq.md, \"Which commands work\".",
		}
	}
	k, err := Kafka(c)
	return reader.Open(k.Cluster), err
}

// Replays reports whether commands publish again. Elsewhere the connector alone publishes.
func Replays(c *config.Loaded) bool { return c.Sink == config.SinkKafka }

// Replaying is Kafka for a command that publishes again, nil if none does.
func Replaying(c *config.Loaded) (*kafka.Config, error) {
	if !Replays(c) {
		return nil, nil
	}
	k, err := Kafka(c)
	return &k, err
}
