package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSink(t *testing.T) {
	for name, tc := range map[string]struct {
		environ string // without CDC_OUTBOX_, separated by blanks
		want    string // contained in the error; empty: none
	}{
		"nats":                      {"SINK=nats", ""},
		"exactly once":              {"SINK=nats DELIVERY=exactly_once NATS_STREAM=ORDERS", ""},
		"nats without the sink":     {"NATS_STREAM=ORDERS", "(CDC_OUTBOX_NATS_STREAM): has no effect"},
		"kafka beside nats":         {"SINK=nats KAFKA_BROKERS=k:9092", "kafka.brokers"},
		"a default is allowed":      {"SINK=nats KAFKA_BROKERS=127.0.0.1:9092", ""},
		"polling":                   {"SINK=nats SOURCE=polling", "source = \"polling\""},
		"headers for Kafka":         {"SINK=nats ROUTER_FORMAT=cloudevents_binary", "use cloudevents_structured"},
		"stream with a dot":         {"SINK=nats NATS_STREAM=a.b", "nats.stream"},
		"no server":                 {"SINK=nats NATS_SERVERS=off", "nats.servers"},
		"no URL":                    {"SINK=nats NATS_SERVERS=localhost:4222", "nats://host:port"},
		"tls in the URL alone":      {"SINK=nats NATS_SERVERS=tls://n:4222", "set nats.tls.enabled to true"},
		"tls":                       {"SINK=nats NATS_SERVERS=tls://n:4222 NATS_TLS_ENABLED=true", ""},
		"certificate without tls":   {"SINK=nats NATS_TLS_CERT=c.pem", "set nats.tls.enabled to true"},
		"created without subjects":  {"SINK=nats NATS_CREATE=true", "nats.subjects"},
		"created":                   {"SINK=nats NATS_CREATE=true NATS_SUBJECTS=outbox.> NATS_REPLICAS=1", ""},
		"a wildcard first":          {"SINK=nats NATS_CREATE=true NATS_SUBJECTS=*.events", "begins with a wildcard"},
		"no replicas":               {"SINK=nats NATS_REPLICAS=0", "1 to 5"},
		"two ways to log in":        {"SINK=nats NATS_NKEY=n NATS_CREDENTIALS=c", "only one can be set"},
		"password without a user":   {"SINK=nats NATS_PASSWORD=p", "belong together"},
		"user and password":         {"SINK=nats NATS_USERNAME=u NATS_PASSWORD=p", ""},
		"a broker that is not here": {"SINK=redis", "kafka, nats, rabbitmq"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, "", environ(tc.environ))
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			text, err := c.YAML(false)
			require.NoError(t, err)
			require.NotContains(t, string(text), "kafka:\n", "keys of the other sink would be refused")
		})
	}
}

// A login in a URL would be printed with it, in the log and by the command config.
func TestNATSServersHoldNoLogin(t *testing.T) {
	_, err := load(t, "", []string{"CDC_OUTBOX_SINK=nats", "CDC_OUTBOX_NATS_SERVERS=nats://u:s3cret@n:4222"})
	require.ErrorContains(t, err, "set nats.username and nats.password")
	require.NotContains(t, err.Error(), "s3cret")
}

// For a glance at records, a connector's own configuration is used with another sink on the command line.
func TestStdoutIsForEachConfiguration(t *testing.T) {
	for _, key := range []string{"NATS_STREAM=ORDERS", "KAFKA_BROKERS=k:9092"} {
		_, err := load(t, "", []string{"CDC_OUTBOX_" + key}, "--sink=stdout")
		require.NoError(t, err)
	}
}
