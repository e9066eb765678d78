package config

// Kafka is where the records go.
type Kafka struct {
	Brokers     []string `key:"brokers" default:"127.0.0.1:9092" example:"kafka-1:9092,kafka-2:9092" doc:"Brokers to ask for the cluster's metadata, host:port."`
	Compression string   `key:"compression" default:"none" oneof:"none|gzip|snappy|lz4|zstd" doc:"Compression of record batches."`
	TLS         TLS      `key:"tls"`
	SASL        SASL     `key:"sasl"`
	Topics      Topics   `key:"topics"`
}

// TLS is the encryption of the connections to Kafka.
type TLS struct {
	Enabled            bool   `key:"enabled" default:"false" doc:"Encrypt the connections to Kafka."`
	CA                 string `key:"ca" example:"/etc/kafka/ca.pem" doc:"PEM file with the authorities that may sign the brokers' certificates. Empty: the system's."`
	Cert               string `key:"cert" example:"/etc/kafka/client.pem" doc:"PEM file with the client's certificate. Read again for each connection, so it can be rotated."`
	Key                string `key:"key" example:"/etc/kafka/client-key.pem" doc:"PEM file with the client's private key. Read again for each connection."`
	ServerName         string `key:"server_name" doc:"Name the brokers' certificates must carry. Empty: the host that is dialled."`
	InsecureSkipVerify bool   `key:"insecure_skip_verify" default:"false" doc:"Accept any certificate: whoever stands in between can read and change everything. For tests only."`
}

// SASL is how the connector authenticates to Kafka.
type SASL struct {
	Mechanism string `key:"mechanism" oneof:"|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512" doc:"SASL mechanism. Empty: no authentication."`
	Username  Secret `key:"username" example:"cdc-outbox" doc:"User name for SASL."`
	Password  Secret `key:"password" example:"@/run/secrets/kafka-password" doc:"Password for SASL."`
}

// Topics says what to do about topics that do not exist.
type Topics struct {
	Create            bool              `key:"create" default:"false" doc:"Create a topic that a row needs and that does not exist. The user needs the right to: CREATE on the cluster, or on topics with the prefix in question. Names that start with __ are never created."`
	Partitions        int               `key:"partitions" default:"12" doc:"Partitions of a topic created here."`
	ReplicationFactor int               `key:"replication_factor" default:"3" doc:"Replicas of a topic created here."`
	Config            map[string]string `key:"config" example:"{\"min.insync.replicas\": \"2\", \"retention.ms\": \"604800000\"}" doc:"Topic configuration of a topic created here, by Kafka's names. A mapping in the file, JSON in a variable or flag."`
	Rules             []TopicRule       `key:"rules" example:"[{\"pattern\": \"orders.*\", \"partitions\": 24, \"config\": {\"cleanup.policy\": \"delete\"}}]" doc:"What is different for some of the topics created here. Each rule has a pattern and any of partitions, replication_factor and config; the first whose pattern fits the whole name counts. In a pattern * is any text, ? any one character and [a-z] one of these; a dot is a dot. What a rule leaves out is as above, config key by key. A list of mappings in the file, JSON in a variable or flag."`
}

func (l *loader) kafka(k *Kafka) {
	if len(k.Brokers) == 0 {
		l.fail("kafka.brokers", "host:port, one or more", "names no broker")
	}
	for _, b := range k.Brokers {
		l.address("kafka.brokers", b, false)
	}
	l.topics(&k.Topics)
	l.tls(&k.TLS)
	l.sasl(&k.SASL)
}

// tls refuses half a setting: a certificate with TLS off would send everything in the clear while its owner believes
// otherwise.
func (l *loader) tls(t *TLS) {
	if !t.Enabled {
		for _, other := range []struct {
			key string
			set bool
		}{
			{"kafka.tls.ca", t.CA != ""},
			{"kafka.tls.cert", t.Cert != ""},
			{"kafka.tls.key", t.Key != ""},
			{"kafka.tls.server_name", t.ServerName != ""},
			{"kafka.tls.insecure_skip_verify", t.InsecureSkipVerify},
		} {
			if other.set {
				l.fail(other.key, "", "is set while kafka.tls.enabled is false; set kafka.tls.enabled to true")
			}
		}
		return
	}
	if (t.Cert == "") != (t.Key == "") {
		l.fail("kafka.tls.cert", "", "kafka.tls.cert and kafka.tls.key belong together; one of them is empty")
	}
	if key, err := t.check(); err != nil {
		l.fail(key, "a PEM file", "%s", err.Error())
	}
}

func (l *loader) sasl(s *SASL) {
	for _, part := range []struct {
		key    string
		secret Secret
	}{{"kafka.sasl.username", s.Username}, {"kafka.sasl.password", s.Password}} {
		switch {
		case s.Mechanism != "" && !part.secret.IsSet():
			l.fail(part.key, "", "is empty; kafka.sasl.mechanism %s needs it", s.Mechanism)
		case s.Mechanism == "" && part.secret.IsSet():
			l.fail(part.key, "", "is set while kafka.sasl.mechanism is empty; name the mechanism")
		}
	}
}
