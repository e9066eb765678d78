package rabbitmq

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Names of headers that the relay adds to a row's own. timestamp_in_ms is RabbitMQ's own convention: the property has
// seconds only.
const (
	headerKey       = "outbox-key"
	headerTombstone = "outbox-tombstone" // true: the payload is NULL, not empty
	headerTime      = "timestamp_in_ms"
	appID           = "cdc-outbox"
)

// message is a record in transit.
type message struct {
	topic, exchange, routingKey string
	publishing                  amqp.Publishing
}

// Bounds of one message. Names, routing keys and properties are short strings (AMQP 0-9-1, 4.2.5.3), and all headers
// are in one frame (2.3.5.2).
const (
	shortString = 255
	frameMargin = 512 // bytes of a frame of properties that are not headers or strings of ours
)

// limits are the largest sizes that the server takes, in bytes; zero: not known.
type limits struct {
	frame   int
	message int
}

// newMessage copies the record. An error is a *sink.RefusedError.
func (c *Cluster) newMessage(rec *router.Record, l limits) (*message, error) {
	m := &message{topic: rec.Topic, exchange: c.exchange(rec.Topic), routingKey: c.routingKey(rec.Topic, rec.Key)}
	if why := illegalExchange(m.exchange); why != "" {
		return nil, &sink.RefusedError{Topic: rec.Topic, Reason: sink.IllegalTopic, Why: why}
	}
	if why := illegalText(m.routingKey); why != "" {
		return nil, invalid(rec.Topic, "its routing key "+why, "Have later rows carry a shorter key, in UTF-8.")
	}
	headers := make(amqp.Table, len(rec.Headers)+3)
	p := &m.publishing
	size := frameMargin + len(rec.Key)
	for i := range rec.Headers {
		h := &rec.Headers[i]
		if why := illegalName(headers, h.Key); why != "" {
			return nil, invalid(rec.Topic, fmt.Sprintf("the header %q %s", h.Key, why),
				"Have later rows name the header otherwise.")
		}
		if h.Value == nil {
			continue
		}
		v := text(h.Value)
		headers[h.Key] = v
		size += len(h.Key) + len(h.Value) + 8
		if s, ok := v.(string); ok && len(s) <= shortString {
			describe(p, h.Key, s)
		}
	}
	if rec.Key != nil {
		headers[headerKey] = text(rec.Key)
	}
	if rec.Value == nil {
		headers[headerTombstone] = true
	}
	headers[headerTime] = rec.Timestamp
	if err := l.fits(rec, size); err != nil {
		return nil, err
	}
	if p.ContentType == "" {
		p.ContentType = c.ContentType
	}
	p.Headers, p.Body = headers, bytes.Clone(rec.Value)
	p.DeliveryMode, p.AppId, p.Timestamp = amqp.Persistent, appID, time.UnixMilli(rec.Timestamp)
	return m, nil
}

// fits returns an error for a record that is too large, whose properties have at most so many bytes.
func (l limits) fits(rec *router.Record, properties int) error {
	too := &sink.RefusedError{Topic: rec.Topic, Reason: sink.TooLarge}
	switch {
	case l.frame > 0 && properties > l.frame:
		too.Bytes, too.Limit, too.Setting = properties, l.frame, "frame_max for the headers"
		too.Remedy = fault.Do("Raise frame_max of the servers, or have the rows carry less in headers.")
	case l.message > 0 && len(rec.Value) > l.message:
		too.Bytes, too.Limit, too.Setting = len(rec.Value), l.message, "max_message_size of the server"
		too.Remedy = fault.Do("Raise max_message_size in the configuration of the servers.")
	default:
		return nil
	}
	return too
}

// describe copies the header into the property for it, if there is one.
func describe(p *amqp.Publishing, name, value string) {
	switch {
	case name == "id":
		p.MessageId = value
	case name == "type":
		p.Type = value
	case strings.EqualFold(name, "content-type"):
		p.ContentType = value
	}
}

// text is a string for most values; consumers see anything that is not UTF-8 as bytes.
func text(value []byte) any {
	if utf8.Valid(value) {
		return string(value)
	}
	return bytes.Clone(value)
}

func invalid(topic, sentence, remedy string) error {
	return &sink.RefusedError{
		Topic: topic, Reason: sink.InvalidRecord, Sentence: sentence, Remedy: fault.Do(remedy),
	}
}

// illegalExchange says why nothing can be published to the exchange; empty: something can.
func illegalExchange(name string) string {
	switch {
	case name == "":
		return "the exchange has no name"
	case name == "amq.rabbitmq.trace" || name == "amq.rabbitmq.log":
		return "the server keeps this exchange for itself"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "the name of the exchange has control characters"
	}
	return illegalText(name)
}

func illegalText(s string) string {
	switch {
	case len(s) > shortString:
		return fmt.Sprintf("has %d bytes, and RabbitMQ takes %d", len(s), shortString)
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	return ""
}

// illegalName says why a header cannot have the name; empty: it can. The server routes by CC and BCC, and closes the
// channel if they are not lists.
func illegalName(have amqp.Table, name string) string {
	_, twice := have[name]
	switch {
	case name == "CC" || name == "BCC":
		return "would be an instruction to the server"
	case name == headerKey || name == headerTombstone || name == headerTime:
		return "is the connector's own"
	case twice:
		return "is there twice"
	case name == "":
		return "has no name"
	}
	return illegalText(name)
}
