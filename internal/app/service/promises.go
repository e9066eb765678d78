package service

import (
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/rabbitmq"
)

// Promises lists the promises of this configuration.
func Promises(c *config.Loaded) sink.Promises {
	exactlyOnce := c.Delivery == "exactly_once"
	switch {
	case c.Sink == config.SinkNATS:
		return nats.Promises(exactlyOnce)
	case c.Sink == config.SinkRabbitMQ:
		return rabbitmq.Promises(c.RabbitMQ.Lock)
	case c.Source == config.SourcePolling:
		return polling.Promises(kafka.Promises(exactlyOnce))
	}
	return kafka.Promises(exactlyOnce)
}

// promised are findings with nothing to do, so that check names the promises that it is green for.
func promised(c *config.Loaded) (all []preflight.Finding) {
	for _, p := range Promises(c) {
		all = append(all, preflight.Fine("promised "+p.Of, p.Text))
	}
	return all
}
