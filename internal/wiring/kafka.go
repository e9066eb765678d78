package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
)

// Kafka takes what the producer needs from the configuration.
func Kafka(c *config.Loaded) (kafka.Config, error) {
	k := kafka.Config{Brokers: c.Kafka.Brokers, Compression: c.Kafka.Compression}
	if topics := c.Kafka.Topics; topics.Create {
		k.CreateTopic = func(name string) kafka.TopicSettings {
			t := topics.For(name)
			return kafka.TopicSettings{Partitions: t.Partitions, ReplicationFactor: t.ReplicationFactor, Config: t.Config}
		}
	}
	tls, err := c.Kafka.TLS.Build()
	if err != nil {
		return k, &fault.Error{Kind: fault.Config, Object: "kafka.tls", Err: err}
	}
	k.TLS = tls
	if c.Kafka.SASL.Mechanism == "" {
		return k, nil
	}
	user, err := c.Kafka.SASL.Username.Read()
	if err != nil {
		return k, &fault.Error{Kind: fault.Config, Object: "kafka.sasl.username", Err: err}
	}
	k.SASL = &kafka.SASL{Mechanism: c.Kafka.SASL.Mechanism, Username: user, Password: c.Kafka.SASL.Password.Read}
	return k, nil
}
