package config

import "strings"

// The values of sink.
const (
	SinkKafka    = "kafka"
	SinkNATS     = "nats"
	SinkRabbitMQ = "rabbitmq"
	SinkStdout   = "stdout" // takes the place of any, for once: the keys of all are allowed
)

// ofOtherSink says why a key has no effect with this sink; empty: it has one.
func (c *Config) ofOtherSink(key string) string {
	section, _, _ := strings.Cut(key, ".")
	switch {
	case c.Sink == SinkStdout || c.Sink == section:
		return ""
	case section == SinkKafka:
		return "has no effect while sink is " + c.Sink + "; remove the key"
	case section == SinkNATS || section == SinkRabbitMQ:
		return "has no effect while sink is " + c.Sink + "; set sink to " + section + ", or remove the key"
	}
	return ""
}

// sink refuses whatever the broker cannot do.
func (l *loader) sink(c *Config) {
	switch c.Sink {
	case SinkKafka:
		l.kafka(&c.Kafka)
		return
	case SinkStdout:
		return
	case SinkNATS:
		l.nats(&c.NATS)
		if c.Source == SourcePolling {
			l.fail("source", SourceWAL, "is not possible with sink: nats, whose stream is written by one connector in "+
				"the order of the log")
		}
	case SinkRabbitMQ:
		l.rabbitmq(&c.RabbitMQ)
		if c.Source == SourcePolling {
			l.fail("source", SourceWAL, "is not possible with sink: rabbitmq, which keeps the connections of one slot "+
				"apart, and polling has none")
		}
		if c.Delivery == deliveryExactlyOnce {
			l.fail("delivery", "at_least_once", "is not possible with sink: rabbitmq, which cannot refuse what a "+
				"replaced instance sends, keeps no position, and is not read back; consumers handle an event once "+
				"with the inbox, see docs/rabbitmq.md")
		}
	}
	if c.Router.Format == "cloudevents_binary" {
		l.fail("router.format", "", "cloudevents_binary names its headers for Kafka; with sink: %s, use "+
			"cloudevents_structured", c.Sink)
	}
}

const deliveryExactlyOnce = "exactly_once"
