package config

import "strings"

// The values of sink.
const (
	SinkKafka  = "kafka"
	SinkNATS   = "nats"
	SinkStdout = "stdout" // takes the place of either, for once: the keys of both are allowed
)

// ofOtherSink says why a key has no effect with this sink; empty: it has one.
func (c *Config) ofOtherSink(key string) string {
	switch {
	case c.Sink == SinkNATS && strings.HasPrefix(key, "kafka."):
		return "has no effect while sink is nats; remove the key"
	case c.Sink == SinkKafka && strings.HasPrefix(key, "nats."):
		return "has no effect while sink is kafka; set sink to nats, or remove the key"
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
	}
	if c.Source == SourcePolling {
		l.fail("source", SourceWAL, "is not possible with sink: nats, whose stream is written by one connector in the "+
			"order of the log")
	}
	if c.Router.Format == "cloudevents_binary" {
		l.fail("router.format", "", "cloudevents_binary names its headers for Kafka; with sink: nats, use "+
			"cloudevents_structured")
	}
	l.nats(&c.NATS)
}
