package wiring

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/token"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Kafka takes the producer's settings from the configuration. Readers and producers of one value use one cluster. It is
// an error if the sink is another broker.
func Kafka(c *config.Loaded) (kafka.Config, error) {
	if c.Sink != config.SinkKafka {
		page := "nats.md"
		if c.Sink == config.SinkRabbitMQ {
			page = "rabbitmq.md"
		}
		return kafka.Config{}, &fault.Error{
			Kind: fault.Config, Object: "sink", Err: fmt.Errorf("this needs Kafka, and sink is %s", c.Sink),
			Next: "See which commands work without Kafka: docs/" + page + ", \"Which commands work\".",
		}
	}
	k := kafka.Config{
		Cluster: wire.Cluster{
			Brokers: c.Kafka.Brokers, ClientID: c.Kafka.ClientID, Identity: &wire.Identity{},
		},
		Compression:     c.Kafka.Compression,
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
	k.TLS, k.Roots = tls, c.Kafka.TLS.Roots()
	k.SASL, err = login(&c.Kafka.SASL)
	return k, err
}

// login is nil for none.
func login(s *config.SASL) (*wire.SASL, error) {
	switch s.Mechanism {
	case "":
		return nil, nil
	case wire.OAuthBearer:
		tokens, err := oauth(&s.OAuth)
		if err != nil {
			return nil, &fault.Error{Kind: fault.Config, Object: "kafka.sasl.oauth", Err: err}
		}
		return &wire.SASL{Mechanism: s.Mechanism, Tokens: tokens, Extensions: s.OAuth.Extensions}, nil
	case wire.AWSMSKIAM:
		aws := token.AWS{
			Region: s.AWS.Region, Profile: s.AWS.Profile, RoleARN: s.AWS.RoleARN, ExternalID: s.AWS.ExternalID,
		}
		return &wire.SASL{Mechanism: s.Mechanism, Tokens: aws.New()}, nil
	}
	user, err := s.Username.Read()
	if err != nil {
		return nil, &fault.Error{Kind: fault.Config, Object: "kafka.sasl.username", Err: err}
	}
	return &wire.SASL{
		Mechanism: s.Mechanism, Username: user, User: s.Username.Read, Password: s.Password.Read,
	}, nil
}

func oauth(o *config.OAuth) (wire.Tokens, error) {
	if o.TokenFile != "" {
		return token.File{Path: o.TokenFile, Read: o.Token().Read}, nil
	}
	client, err := o.Client()
	if err != nil {
		return nil, err
	}
	return token.Endpoint{
		URL: o.TokenURL, ClientID: o.ClientID, Secret: o.ClientSecret.Read, Scopes: o.Scopes, Audience: o.Audience,
		Client: client,
	}.New(), nil
}
