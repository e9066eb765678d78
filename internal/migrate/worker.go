package migrate

import (
	"strconv"
	"strings"
)

const ownProducer = "The producer is idempotent with acks=all, in order, and decides sizes and waits itself."

// producerOverride judges the producer's options.
func producerOverride(m *migration, name, value string) outcome {
	switch name {
	case "bootstrap.servers":
		var brokers []string
		for _, b := range list(value) {
			if _, after, ok := strings.Cut(b, "://"); ok {
				b = after
			}
			brokers = append(brokers, b)
		}
		m.out.set("kafka.brokers", brokers)
		return outcome{Translated, "kafka.brokers", ""}
	case "compression.type":
		return oneOf("kafka.compression", "none", "gzip", "snappy", "lz4", "zstd")(m, value)
	case "acks":
		if value != "all" && value != "-1" {
			return outcome{Without, "", "acks is always all: the slot must not pass what a single broker could lose."}
		}
		return outcome{Without, "", ownProducer}
	case "partitioner.class":
		if value == "" || strings.HasSuffix(value, ".DefaultPartitioner") || strings.HasSuffix(value, ".BuiltInPartitioner") {
			return outcome{Without, "", "The default, which is done here too: murmur2 of the key."}
		}
		return outcome{Refused, "", "Only the Java client's default partitioner (murmur2 of the key) is here: records would land in other partitions."}
	case "partitioner.ignore.keys":
		if strings.EqualFold(value, "true") {
			return outcome{Refused, "", "Keys decide the partition here."}
		}
		return outcome{Without, "", "The default."}
	case "interceptor.classes":
		return outcome{Decide, "", "Interceptors are not called. Find out what they do; some change records."}
	case "max.request.size":
		return outcome{Without, "", "The topic's max.message.bytes decides."}
	case "client.id":
		return outcome{Without, "", "Connections are called cdc-outbox; quotas by client id have to be given anew."}
	case "transactional.id":
		return outcome{Without, "", "With delivery: exactly_once it is made from the slot; grant the rights on it (cdc-outbox check says which)."}
	case "security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type", "ssl.keystore.location",
		"ssl.keystore.type", "ssl.endpoint.identification.algorithm":
		return m.security(name, value)
	}
	for _, p := range []string{"batch.size", "linger.ms", "buffer.memory", "max.in.flight", "enable.idempotence", "retries", "retry.", "delivery.timeout", "request.timeout",
		"max.block.ms", "metadata.", "connections.max.idle", "reconnect.backoff", "send.buffer", "receive.buffer", "socket.connection", "partitioner.a", "transaction.timeout",
		"enable.metrics.push", "client.dns.lookup", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "auto.include.jmx"} {
		if strings.HasPrefix(name, p) {
			return outcome{Without, "", ownProducer}
		}
	}
	switch {
	case name == "key.serializer", name == "value.serializer":
		return outcome{Without, "", "The converters make bytes; the serializer passes them on."}
	case strings.HasPrefix(name, "metric"):
		return outcome{Without, "", "Metrics are Prometheus' here; see docs/monitor.md for their names."}
	case strings.HasPrefix(name, "ssl."):
		return outcome{Decide, "kafka.tls", "TLS is set with PEM files: kafka.tls.ca, cert and key."}
	case strings.HasPrefix(name, "sasl."):
		return outcome{Decide, "kafka.sasl", "PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 with user and password are what there is."}
	}
	return outcome{Unknown, "", "An option of Kafka's producer that this version does not know; find out whether it changes what is written."}
}

// topicCreation judges topic.creation.GROUP.SETTING.
func topicCreation(m *migration, name, value string) outcome {
	group, setting, _ := strings.Cut(name, ".")
	if name == "enable" {
		return outcome{Without, "", "A worker's option."}
	}
	if group != "default" {
		return outcome{Decide, "kafka.topics.rules", "Settings for some topics: write a rule with a pattern for the group " + group + "."}
	}
	switch setting {
	case "partitions", "replication.factor":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return outcome{Decide, "kafka.topics", "The brokers' default is not asked for here: say the number."}
		}
		m.out.set("kafka.topics.create", true)
		key := "kafka.topics." + strings.ReplaceAll(setting, ".", "_")
		m.out.set(key, n)
		return outcome{Translated, key, ""}
	case "include", "exclude":
		return outcome{Without, "", "The group default has none."}
	}
	config, _ := m.out["kafka.topics.config"].(map[string]string)
	if config == nil {
		config = map[string]string{}
	}
	config[setting] = value
	m.out.set("kafka.topics.create", true)
	m.out.set("kafka.topics.config", config)
	return outcome{Translated, "kafka.topics.config", ""}
}

func topicGroups(_ *migration, value string) outcome {
	if value == "" || value == "default" {
		return outcome{Without, "", "The group default."}
	}
	return outcome{Decide, "kafka.topics.rules", "Settings for some topics, by regular expression; kafka.topics.rules has patterns with * and ?."}
}

// worker judges what a Connect worker's file has beyond the connector's matters.
func worker(_ *migration, name, _ string) outcome {
	if strings.HasPrefix(name, "config.providers") {
		return outcome{Without, "", "Secrets are read from files (@path) or environment variables."}
	}
	if name == "exactly.once.source.support" {
		return outcome{Without, "", "See exactly.once.support of the connector."}
	}
	return outcome{Without, "", "The worker's own; there is no worker here."}
}

// serverRules are Debezium Server's own.
var serverRules = map[string]rule{
	"debezium.sink.type": func(_ *migration, value string) outcome {
		if value == "kafka" {
			return outcome{Translated, "kafka.brokers", "Kafka is the sink here, too."}
		}
		return outcome{Refused, "", "Only Kafka is written to here."}
	},
	"debezium.format.value": serverFormat("value"),
	"debezium.format.key":   serverFormat("key"),
	"debezium.format.header": func(m *migration, value string) outcome {
		if value != "json" {
			return outcome{Refused, "router.debezium.header_converter", "Only json is done the same way here."}
		}
		word := "json_with_schema"
		if strings.EqualFold(m.in.value("debezium.format.header.schemas.enable"), "false") {
			word = "json"
		}
		m.out.set("router.debezium.header_converter", word)
		return outcome{Translated, "router.debezium.header_converter", word}
	},
	"debezium.format.value.schemas.enable":  without("Decides between json and json_with_schema."),
	"debezium.format.key.schemas.enable":    without("Decides between json and json_with_schema."),
	"debezium.format.header.schemas.enable": without("Decides between json and json_with_schema."),
	"debezium.format.schemas.enable":        decide("It holds for all three formats; set value_converter, key_converter and header_converter to json if it is false."),
}

func serverFormat(side string) rule {
	key := "router.debezium." + side + "_converter"
	return func(m *migration, value string) outcome {
		word := ""
		switch strings.ToLower(value) {
		case "json":
			word = "json_with_schema"
			if strings.EqualFold(m.in.value("debezium.format."+side+".schemas.enable"), "false") {
				word = "json"
			}
		case "simplestring":
			word = "string"
		case "binary":
			word = "binary"
		default:
			return outcome{Refused, key, "json, simplestring and binary are what can be done the same way here."}
		}
		m.out.set(key, word)
		return outcome{Translated, key, word}
	}
}

// serverOption judges the rest of Debezium Server's names.
func serverOption(_ *migration, name, _ string) outcome {
	switch {
	case strings.HasPrefix(name, "api."), strings.HasPrefix(name, "redis."), strings.HasPrefix(name, "health"):
		return outcome{Without, "", "Debezium Server's own."}
	case strings.HasPrefix(name, "sink."):
		return outcome{Decide, "", "An option of the sink; see whether it changes what is written, or where."}
	}
	return outcome{Unknown, "", "This version knows no such option of Debezium Server."}
}

func init() {
	for _, name := range []string{"offset.storage", "offset.storage.file.filename", "offset.flush.interval.ms", "offset.flush.timeout.ms", "offset.storage.topic",
		"offset.storage.partitions", "offset.storage.replication.factor", "offset.commit.policy"} {
		rules[name] = without("The position is the slot's. Keep the file or topic for the way back.")
	}
}
