package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRabbitMQ(t *testing.T) {
	const login = "SINK=rabbitmq RABBITMQ_USERNAME=u RABBITMQ_PASSWORD=s3cret "
	const dir = "testdata/tls/"
	const certificate = "RABBITMQ_TLS_ENABLED=true RABBITMQ_TLS_CERT=" + dir + "cert.pem RABBITMQ_TLS_KEY=" + dir +
		"pkcs8-scrypt.pem RABBITMQ_TLS_KEY_PASSWORD=right "
	for name, tc := range map[string]struct {
		environ string // without CDC_OUTBOX_, separated by blanks
		want    string // contained in the error; empty: none
	}{
		"user and password":        {login, ""},
		"no login":                 {"SINK=rabbitmq", "both needed"},
		"no password":              {"SINK=rabbitmq RABBITMQ_USERNAME=u", "both needed"},
		"external":                 {"SINK=rabbitmq RABBITMQ_EXTERNAL=true " + certificate, ""},
		"external without TLS":     {"SINK=rabbitmq RABBITMQ_EXTERNAL=true", "set rabbitmq.tls.cert"},
		"two ways to log in":       {login + "RABBITMQ_EXTERNAL=true " + certificate, "only one can be set"},
		"exactly once":             {login + "DELIVERY=exactly_once", "cannot refuse what a replaced instance sends"},
		"polling":                  {login + "SOURCE=polling", "source = \"polling\""},
		"headers for Kafka":        {login + "ROUTER_FORMAT=cloudevents_binary", "use cloudevents_structured"},
		"without the sink":         {"RABBITMQ_VHOST=shop", "set sink to rabbitmq, or remove the key"},
		"beside nats":              {"SINK=nats RABBITMQ_VHOST=shop", "has no effect while sink is nats"},
		"nats beside it":           {login + "NATS_STREAM=ORDERS", "has no effect while sink is rabbitmq"},
		"kafka beside it":          {login + "KAFKA_BROKERS=k:9092", "kafka.brokers"},
		"a URL":                    {login + "RABBITMQ_ADDRESSES=amqp://h:5672", "leave out the scheme"},
		"no server":                {login + "RABBITMQ_ADDRESSES=off", "rabbitmq.addresses"},
		"templates":                {login + "RABBITMQ_EXCHANGE=e RABBITMQ_ROUTING_KEY=${topic}.${key}", ""},
		"a key in the exchange":    {login + "RABBITMQ_EXCHANGE=e.${key}", `"${key}" means nothing here`},
		"a place that is a column": {login + "RABBITMQ_ROUTING_KEY=${aggregate_id}", "rabbitmq.routing_key"},
		"a place without an end":   {login + "RABBITMQ_DEAD_LETTER_EXCHANGE=${topic", "means nothing here"},
		"a type of its own":        {login + "RABBITMQ_EXCHANGE_TYPE=headers", "x-consistent-hash"},
		"heartbeat":                {login + "RABBITMQ_HEARTBEAT=1ms", "a duration from 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, "", environ(tc.environ))
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), "s3cret")
				return
			}
			require.NoError(t, err)
			text, err := c.YAML(false)
			require.NoError(t, err)
			require.NotContains(t, string(text), "s3cret")
			require.NotContains(t, string(text), "kafka:\n", "keys of the other sink would be refused")
			require.NotContains(t, string(text), "nats:\n")
		})
	}
}
