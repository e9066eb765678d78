package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
)

// Kafka takes what the producer needs from the configuration.
func Kafka(c *config.Loaded) (kafka.Config, error) {
	k := kafka.Config{
		Cluster: wire.Cluster{Brokers: c.Kafka.Brokers}, Compression: c.Kafka.Compression,
		KeepTimestamps:  c.Router.Preset == config.PresetDebezium, // its records are Debezium's, byte for byte
		TimestampColumn: c.Router.Roles().Timestamp,
	}
	if topics := c.Kafka.Topics; topics.Create {
		k.CreateTopic = func(name string) wire.TopicSettings {
			t := topics.For(name)
			return wire.TopicSettings{
				Partitions: t.Partitions, ReplicationFactor: t.ReplicationFactor, Config: t.Config,
			}
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
	k.SASL = &wire.SASL{Mechanism: c.Kafka.SASL.Mechanism, Username: user, Password: c.Kafka.SASL.Password.Read}
	return k, nil
}
