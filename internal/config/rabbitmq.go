package config

import (
	"strings"
	"time"
)

// RabbitMQ names the exchanges that receive the records.
type RabbitMQ struct {
	// Servers to connect to, tried in turn. List several of a cluster: only these are connected to.
	Addresses []string `key:"addresses" default:"127.0.0.1:5672" example:"rabbit-1:5672,rabbit-2:5672"`

	// Virtual host.
	VHost string `key:"vhost" default:"/" example:"shop"`

	// Exchange to publish to. `${topic}` is the name that `router.topic` gives. Queues have to be bound to it: an event
	// that no queue takes is waited for.
	Exchange string `key:"exchange" default:"${topic}" example:"events"`

	// Routing key of a message. `${key}` is the key of the record, usually the aggregate id; `${topic}` is the name
	// that `router.topic` gives. The events of a key keep their order in a queue only if all of them lead there.
	RoutingKey string `key:"routing_key" default:"${key}" example:"${topic}.${key}"`

	// Declare an exchange that does not exist, durable. Otherwise it is waited for.
	Create bool `key:"create" default:"false"`

	// Type of an exchange that is created. `x-consistent-hash` needs the plugin of that name.
	ExchangeType string `key:"exchange_type" default:"topic" oneof:"topic|direct|fanout|x-consistent-hash"`

	// Exchange for dead letters. `${topic}` is `router.dead_letter_topic`, which is the routing key, too.
	DeadLetterExchange string `key:"dead_letter_exchange" default:"${topic}" example:"dead-letters"`

	// Content type of the messages whose rows name none in a header `content-type`.
	ContentType string `key:"content_type" default:"application/json"`

	// Name that the connection carries in the server's lists.
	ClientName string `key:"client_name" default:"cdc-outbox" example:"cdc-outbox-shop"`

	// Time after which a silent connection is checked; after two of them it is lost. The server may ask for less.
	Heartbeat time.Duration `key:"heartbeat" default:"10s"`

	// Declare an exclusive queue named after the slot. It keeps two instances of a connector apart, and a new
	// connection from overtaking what an earlier one has sent. Without it, order is only promised until a connection
	// is lost. The user needs the right to configure queues that begin with `cdc-outbox.`.
	Lock bool `key:"lock" default:"true"`

	// Log in with the certificate of `rabbitmq.tls` (EXTERNAL) instead of user and password.
	External bool `key:"external" default:"false"`

	// User name. It is read again for each connection.
	Username Secret `key:"username" example:"outbox"`

	// Password. It is read again for each connection.
	Password Secret `key:"password" example:"@/run/secrets/rabbitmq-password"`

	// Encryption of the connections to RabbitMQ.
	TLS TLS `key:"tls"`
}

func (l *loader) rabbitmq(r *RabbitMQ) {
	if len(r.Addresses) == 0 {
		l.fail("rabbitmq.addresses", "host:port, one or more", "names no server")
	}
	for _, a := range r.Addresses {
		l.address("rabbitmq.addresses", a, false)
	}
	if r.VHost == "" {
		l.fail("rabbitmq.vhost", "a name", "is empty; the first one of a server is /")
	}
	l.rabbitmqTemplate("rabbitmq.exchange", r.Exchange, placeTopic)
	l.rabbitmqTemplate("rabbitmq.routing_key", r.RoutingKey, placeTopic, "${key}")
	l.rabbitmqTemplate("rabbitmq.dead_letter_exchange", r.DeadLetterExchange, placeTopic)
	l.atLeast("rabbitmq.heartbeat", int64(r.Heartbeat), int64(time.Second), "a duration from 1s")
	switch {
	case r.External && (r.Username.IsSet() || r.Password.IsSet()):
		l.fail("rabbitmq.external", "", "rabbitmq.external and rabbitmq.username are ways to log in; only one can be "+
			"set")
	case r.External && r.TLS.Cert == "":
		l.fail("rabbitmq.external", "", "logs in with a certificate; set rabbitmq.tls.cert and rabbitmq.tls.key")
	case !r.External && !(r.Username.IsSet() && r.Password.IsSet()):
		l.fail("rabbitmq.username", "", "rabbitmq.username and rabbitmq.password are both needed, or rabbitmq.external")
	}
	l.tls("rabbitmq.tls.", &r.TLS)
}

const placeTopic = "${topic}"

// rabbitmqTemplate refuses a name with a place that is never filled in.
func (l *loader) rabbitmqTemplate(key, text string, places ...string) {
	if text == "" {
		l.fail(key, "a name", "is empty")
	}
	for _, p := range places {
		text = strings.ReplaceAll(text, p, "")
	}
	if _, unknown, found := strings.Cut(text, "${"); found {
		l.fail(key, "a name, with "+strings.Join(places, " and "), "%s means nothing here", quote("${"+unknown))
	}
}
