package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
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
