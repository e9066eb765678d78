package config

import (
	"errors"
	"strings"
)

// Kafka names the cluster that receives the records.
type Kafka struct {
	// Brokers to ask for the metadata of the cluster, as `host:port`.
	Brokers []string `key:"brokers" default:"127.0.0.1:9092" example:"kafka-1:9092,kafka-2:9092"`

	// Name that the connections carry in the brokers' logs and metrics, and that quotas of `client-id` apply to.
	ClientID string `key:"client_id" default:"cdc-outbox" example:"cdc-outbox-shop"`

	// Compression of record batches.
	Compression string `key:"compression" default:"none" oneof:"none|gzip|snappy|lz4|zstd"`

	// Encryption of the connections to Kafka.
	TLS TLS `key:"tls"`

	// Authentication to Kafka.
	SASL SASL `key:"sasl"`

	// What to do about topics that do not exist.
	Topics Topics `key:"topics"`
}

// TLS configures the encryption of the connections to a broker.
type TLS struct {
	// Encrypt the connections.
	Enabled bool `key:"enabled" default:"false"`

	// PEM file with the authorities that may sign the certificates of the brokers. It is read again for each
	// connection (`forward`: at its start), so it can be rotated. Empty: the authorities of the system.
	CA string `key:"ca" example:"/etc/kafka/ca.pem"`

	// PEM file with the client certificate. It is read again for each connection, so it can be rotated.
	Cert string `key:"cert" example:"/etc/kafka/client.pem"`

	// PEM file with the client's private key. It is read again for each connection.
	Key string `key:"key" example:"/etc/kafka/client-key.pem"`

	// Password of the private key, if the key is encrypted (PKCS #8, or the older PEM encryption of OpenSSL).
	KeyPassword Secret `key:"key_password" example:"@/run/secrets/kafka-key-password"`

	// Name that the certificates of the brokers must carry. Empty: the host of the connection.
	ServerName string `key:"server_name"`

	// Accept any certificate. Anyone on the network path can then read and change everything. For tests only.
	InsecureSkipVerify bool `key:"insecure_skip_verify" default:"false"`
}

// Topics configures the creation of topics that do not exist.
type Topics struct {
	// Create a topic that a row needs and that does not exist. The user needs the right `CREATE` on the cluster or
	// on topics with that prefix. Topics whose names start with `__` are never created.
	Create bool `key:"create" default:"false"`

	// Number of partitions of a created topic.
	Partitions int `key:"partitions" default:"12"`

	// Number of replicas of a created topic.
	ReplicationFactor int `key:"replication_factor" default:"3"`

	// Configuration of a created topic, with Kafka's names. A mapping in the file, JSON in a variable or flag.
	Config map[string]string `key:"config" example:"{\"min.insync.replicas\": \"2\", \"retention.ms\": \"604800000\"}"`

	// Exceptions for some of the created topics. Each rule has a pattern and any of `partitions`, `replication_factor`
	// and `config`. The first rule whose pattern matches the whole name applies. In a pattern, `*` is any text, `?` is
	// any single character, `[a-z]` is one of these characters, and a dot is a dot. What a rule leaves out is taken
	// from the keys above; `config` is merged name by name. A list of mappings in the file, JSON in a variable or flag.
	Rules []TopicRule `key:"rules" example:"[{\"pattern\": \"orders.*\", \"partitions\": 24}]"`
}

func (l *loader) kafka(k *Kafka) {
	if len(k.Brokers) == 0 {
		l.fail("kafka.brokers", "host:port, one or more", "names no broker")
	}
	for _, b := range k.Brokers {
		l.address("kafka.brokers", b, false)
	}
	if k.ClientID == "" || strings.ContainsFunc(k.ClientID, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		l.fail("kafka.client_id", "a name", "is empty or has control characters")
	}
	l.topics(&k.Topics)
	l.tls("kafka.tls.", &k.TLS)
	l.sasl(k)
}

// tls refuses an incomplete configuration: with a certificate and without enabled, everything would be sent in the
// clear while an operator believes otherwise.
func (l *loader) tls(section string, t *TLS) {
	if !t.Enabled {
		for _, other := range []struct {
			key string
			set bool
		}{
			{"ca", t.CA != ""},
			{"cert", t.Cert != ""},
			{"key", t.Key != ""},
			{"key_password", t.KeyPassword.IsSet()},
			{"server_name", t.ServerName != ""},
			{"insecure_skip_verify", t.InsecureSkipVerify},
		} {
			if other.set {
				l.fail(section+other.key, "", "is set while %[1]senabled is false; set %[1]senabled to true", section)
			}
		}
		return
	}
	if (t.Cert == "") != (t.Key == "") {
		l.fail(section+"cert", "", "%[1]scert and %[1]skey belong together; one of them is empty", section)
	}
	if t.KeyPassword.IsSet() && t.Key == "" {
		l.fail(section+"key_password", "", "is set while %skey is empty", section)
	}
	switch key, err := t.check(); {
	case errors.Is(err, errEncryptedKey):
		l.fail(section+key, "a PEM file", "%s; set %skey_password", err.Error(), section)
	case err != nil:
		l.fail(section+key, "a PEM file", "%s", err.Error())
	}
}
