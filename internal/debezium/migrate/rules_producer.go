package migrate

const ownProducer = "The producer is idempotent, uses acks=all, keeps the order, and chooses sizes and waits itself."

// producerRules judges the options of Kafka's producer. kafka.go combines the options that belong together.
var producerRules = []rule{
	{options: "bootstrap.servers", verdict: Translated, key: "kafka.brokers", set: brokers},
	{
		options: "compression.type", words: "none gzip snappy lz4 zstd", verdict: Translated, key: "kafka.compression",
		set: text,
	},
	{options: "acks", when: exactly("all", "-1"), verdict: Without, note: ownProducer},
	{
		options: "acks", verdict: Without,
		note: "acks is always all: the slot must not advance past a record that one broker alone could lose.",
	},
	{options: "partitioner.class", when: exactly(""), verdict: Without, note: defaultPartitioner},
	{
		options: "partitioner.class", when: endsIn(".DefaultPartitioner", ".BuiltInPartitioner"), verdict: Without,
		note: defaultPartitioner,
	},
	{
		options: "partitioner.class", verdict: Refused,
		note: "This program has only the Java client's default partitioner (murmur2 of the key): records would go to " +
			"other partitions.",
	},
	{options: "partitioner.ignore.keys", when: is("true"), verdict: Refused, note: "In this program the key decides " +
		"the partition."},
	{options: "partitioner.ignore.keys", verdict: Without, note: "The default."},
	{
		options: "interceptor.classes", verdict: Decide,
		note: "This program does not call interceptors. Find out what they do; some change records.",
	},
	{options: "max.request.size", verdict: Without, note: "The topic's max.message.bytes is the limit."},
	{
		options: "client.id", verdict: Without,
		note: "The client id is cdc-outbox; set quotas for it.",
	},
	{
		options: "transactional.id", verdict: Without,
		note: "With delivery: exactly_once it is derived from the slot's name; grant the rights on it (cdc-outbox " +
			"check lists them).",
	},
	{options: "security.protocol", when: is("plaintext"), verdict: Without, note: "The default: plain text."},
	{
		options: "security.protocol", when: is("ssl", "sasl_ssl"), verdict: Translated, key: "kafka.tls.enabled",
		set: constant(true),
	},
	{options: "security.protocol", verdict: Translated, key: "kafka.sasl", note: "Without encryption."},
	{
		options: "sasl.mechanism", when: exactly("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), verdict: Translated,
		key: "kafka.sasl.mechanism", set: text,
	},
	{
		options: "sasl.mechanism", when: exactly("OAUTHBEARER", "AWS_MSK_IAM"), verdict: Decide,
		key:  "kafka.sasl.mechanism",
		note: "This program supports it, with keys of its own: kafka.sasl.oauth and kafka.sasl.aws.",
	},
	{
		options: "sasl.mechanism", verdict: Refused, key: "kafka.sasl.mechanism",
		note: "This program supports PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER and AWS_MSK_IAM; the brokers' " +
			"listener must offer one of these.",
	},
	{
		options: "sasl.jaas.config", verdict: Translated, key: "kafka.sasl.username",
		note: "The password is not copied: provide it in CDC_OUTBOX_KAFKA_SASL_PASSWORD or in a file.",
	},
	{options: "ssl.truststore.location", when: pem("truststore"), verdict: Translated, key: "kafka.tls.ca", set: text},
	{
		options: "ssl.truststore.location", verdict: Decide, key: "kafka.tls.ca",
		note: "A Java key store: export its certificates as PEM (keytool -exportcert -rfc -keystore …) and name that " +
			"file; leave it out if a public authority signed the brokers' certificates.",
	},
	{
		options: "ssl.keystore.location", when: pem("keystore"), verdict: Translated, key: "kafka.tls.cert",
		note: "One file holds certificate and key.",
		set: func(m *migration, key, value string) {
			m.out.set(key, value)
			m.out.set("kafka.tls.key", value)
		},
	},
	{
		options: "ssl.keystore.location", verdict: Decide, key: "kafka.tls.cert",
		note: "A Java key store: export certificate and key as PEM (keytool -importkeystore … -deststoretype PKCS12, " +
			"then openssl pkcs12) and name both files.",
	},
	{
		options: "ssl.endpoint.identification.algorithm", when: is(""), verdict: Decide,
		key: "kafka.tls.insecure_skip_verify",
		note: "Today the brokers' names are not verified. Better: issue certificates with the brokers' names, or set " +
			"kafka.tls.server_name.",
	},
	{options: "ssl.endpoint.identification.algorithm", verdict: Without, note: "The default: names are verified."},
	{
		options: "ssl.truststore.type ssl.keystore.type", verdict: Without,
		note: "See ssl.truststore.location and ssl.keystore.location.",
	},
	{
		options: `batch.size* linger.ms* buffer.memory* max.in.flight* enable.idempotence* retries* retry.*
			delivery.timeout* request.timeout* max.block.ms* metadata.* connections.max.idle* reconnect.backoff*
			send.buffer* receive.buffer* socket.connection* partitioner.a* transaction.timeout* enable.metrics.push*
			client.dns.lookup* compression.gzip.level* compression.lz4.level* compression.zstd.level*
			auto.include.jmx*`,
		verdict: Without, note: ownProducer,
	},
	{
		options: "key.serializer value.serializer", verdict: Without,
		note: "The converters produce bytes; the serializer passes them on.",
	},
	{options: "metric*", verdict: Without, note: metrics},
	{options: "ssl.*", verdict: Decide, key: "kafka.tls", note: "Configure TLS with PEM files: kafka.tls.ca, cert " +
		"and key."},
	{
		options: "sasl.*", verdict: Decide, key: "kafka.sasl",
		note: "This program supports PLAIN and SCRAM with user and password, and tokens with kafka.sasl.oauth and " +
			"kafka.sasl.aws.",
	},
	{
		options: "*", verdict: Unknown,
		note: "This version does not know this option of Kafka's producer; find out whether it changes what is " +
			"written.",
	},
}

const defaultPartitioner = "The default, as in this program: murmur2 of the key."
