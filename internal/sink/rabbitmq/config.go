package rabbitmq

import (
	"crypto/tls"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Config is a Producer's configuration.
type Config struct {
	Cluster

	Logger      *zap.Logger // required
	Reconnected func()      // each connection after the first; nil: it is not called

	sink.Callbacks
}

// Cluster is how the servers are reached, and to which exchanges is published.
type Cluster struct {
	Addresses []string // host:port, tried in turn
	VHost     string
	Name      string // of the connection

	Exchange   string // name, in which ${topic} stands for the record's topic
	RoutingKey string // in which ${topic} and ${key} stand for the record's topic and key
	Type       string // of the exchange that Create declares
	Create     bool   // declare an exchange that is missing; otherwise it is waited for

	DeadLetterTopic    string // records of this topic go to DeadLetterExchange, with their topic as routing key
	DeadLetterExchange string

	ContentType string // of records that name none
	Heartbeat   time.Duration
	Lock        bool // an exclusive queue keeps connections of one owner apart

	External       bool                   // log in by the certificate of TLS
	User, Password func() (string, error) // read for each connection
	TLS            func() (*tls.Config, error)
}

// Open returns the function by which a source of rows opens its producer.
func Open(cfg Config) sink.Open {
	return func(c sink.Callbacks) (sink.Producer, error) {
		cfg.Callbacks = c
		if len(cfg.Addresses) == 0 || cfg.Exchange == "" || cfg.Logger == nil || cfg.Acked == nil {
			return nil, errors.New("rabbitmq: Addresses, Exchange, Logger and Acked are required")
		}
		return newProducer(cfg), nil
	}
}

// exchange is the exchange of a topic.
func (c *Cluster) exchange(topic string) string {
	if topic == c.DeadLetterTopic && topic != "" {
		return strings.ReplaceAll(c.DeadLetterExchange, placeTopic, topic)
	}
	return strings.ReplaceAll(c.Exchange, placeTopic, topic)
}

func (c *Cluster) routingKey(topic string, key []byte) string {
	if topic == c.DeadLetterTopic || c.RoutingKey == placeTopic {
		return topic
	}
	if c.RoutingKey == placeKey {
		return string(key)
	}
	return strings.NewReplacer(placeTopic, topic, placeKey, string(key)).Replace(c.RoutingKey)
}

const (
	placeTopic = "${topic}"
	placeKey   = "${key}"
)

// settings are of one connection. Files are read now.
func (c *Cluster) settings() (amqp.Config, error) {
	out := amqp.Config{
		Vhost: c.VHost, Heartbeat: c.Heartbeat, Locale: "en_US",
		Properties: amqp.Table{"product": appID, "connection_name": c.Name},
	}
	if c.TLS != nil {
		t, err := c.TLS()
		if err != nil {
			return out, &unreadableError{err}
		}
		out.TLSClientConfig = t
	}
	if c.External {
		out.SASL = []amqp.Authentication{&amqp.ExternalAuth{}}
		return out, nil
	}
	user, err := c.User()
	password, perr := c.Password()
	if err := errors.Join(err, perr); err != nil {
		return out, &unreadableError{err}
	}
	out.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}
	return out, nil
}

// unreadableError is for a file of the login that cannot be read.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }
