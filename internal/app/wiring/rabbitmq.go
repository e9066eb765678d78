package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/rabbitmq"
)

// RabbitMQ takes servers, login and exchanges from the configuration.
func RabbitMQ(c *config.Loaded) rabbitmq.Cluster {
	r := &c.RabbitMQ
	return rabbitmq.Cluster{
		Addresses: r.Addresses, VHost: r.VHost, Name: r.ClientName,
		Exchange: r.Exchange, RoutingKey: r.RoutingKey, Type: r.ExchangeType, Create: r.Create,
		DeadLetterTopic: c.Router.DeadLetterTopic, DeadLetterExchange: r.DeadLetterExchange,
		ContentType: r.ContentType, Heartbeat: r.Heartbeat, Lock: r.Lock,
		External: r.External, User: r.Username.Read, Password: r.Password.Read, TLS: r.TLS.Build,
	}
}
