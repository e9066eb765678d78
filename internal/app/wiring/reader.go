package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
)

// Reader reads the broker that the connector publishes to.
func Reader(c *config.Loaded) (sink.OpenReader, error) {
	if c.Sink == config.SinkNATS {
		return nats.OpenReader(NATS(c)), nil
	}
	k, err := Kafka(c)
	return reader.Open(k.Cluster), err
}

// Replays is Kafka for a command that publishes again. It is nil for a broker to which the connector alone publishes.
func Replays(c *config.Loaded) (*kafka.Config, error) {
	if c.Sink == config.SinkNATS {
		return nil, nil
	}
	k, err := Kafka(c)
	return &k, err
}
