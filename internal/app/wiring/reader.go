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

// Replays reports whether commands publish again. To a stream of NATS the connector alone publishes.
func Replays(c *config.Loaded) bool { return c.Sink != config.SinkNATS }

// Replaying is Kafka for a command that publishes again, nil if none does.
func Replaying(c *config.Loaded) (*kafka.Config, error) {
	if !Replays(c) {
		return nil, nil
	}
	k, err := Kafka(c)
	return &k, err
}
