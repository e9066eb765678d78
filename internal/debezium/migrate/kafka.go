package migrate

import (
	"regexp"
	"strconv"
	"strings"
)

// brokers drops the listeners' protocols, and takes a semicolon for the comma that it was to be: no address has one.
func brokers(m *migration, key, value string) {
	addresses := list(strings.ReplaceAll(value, ";", ","))
	for i, a := range addresses {
		if _, after, ok := strings.Cut(a, "://"); ok {
			addresses[i] = after
		}
	}
	m.out.set(key, addresses)
}

// pem reports whether the store is a PEM file that the producer names.
func pem(store string) func(*migration, string) bool {
	return func(m *migration, value string) bool {
		kind := m.in.value("producer.override.ssl." + store + ".type")
		return strings.EqualFold(kind, "PEM") && !unresolved(value)
	}
}

// topicNumber judges the numbers of topic.creation.default.
func topicNumber(key string) func(*migration, string, string) outcome {
	return func(m *migration, _, value string) outcome {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return outcome{Decide, "kafka.topics", "This program does not ask the brokers for their default: set " +
				"the number."}
		}
		m.out.set("kafka.topics.create", true)
		m.out.set(key, n)
		return outcome{Translated, key, ""}
	}
}

const topicsConfig = "kafka.topics.config"

// topicConfig judges the other options under topic.creation.default: settings of topics.
func topicConfig(m *migration, name, value string) outcome {
	config, _ := m.out[topicsConfig].(map[string]string)
	if config == nil {
		config = map[string]string{}
	}
	setting := strings.TrimPrefix(strings.TrimPrefix(name, "topic.creation.default"), ".")
	if !unresolved(value) {
		config[setting] = value
	}
	m.out.set("kafka.topics.create", true)
	m.out.set(topicsConfig, config)
	return outcome{Translated, topicsConfig, ""}
}

func topicGroup(_ *migration, name, _ string) outcome {
	group, _, _ := strings.Cut(strings.TrimPrefix(name, "topic.creation."), ".")
	return outcome{Decide, "kafka.topics.rules", "Settings for a group of topics: write a rule with a pattern for " +
		"the group " + group + "."}
}

// jaasUser finds a name that is written without escapes.
var jaasUser = regexp.MustCompile(`username\s*=\s*(?:"([^"\\]*)"|'([^'\\]*)'|([^\s;"'\\]+)[\s;])`)

// kafka combines the options of the SASL login.
func (m *migration) kafka() {
	if m.out["kafka.sasl.mechanism"] == nil {
		return
	}
	m.notes["kafka.sasl.mechanism"] = "This file does not contain the password: export " +
		"CDC_OUTBOX_KAFKA_SASL_PASSWORD, or set password: \"@/run/secrets/kafka-password\"."
	found := jaasUser.FindStringSubmatch(m.in.value("producer.override.sasl.jaas.config"))
	if found == nil || unresolved(found[0]) {
		m.notes["kafka.sasl.mechanism"] += "\nNor the user: export CDC_OUTBOX_KAFKA_SASL_USERNAME."
		return
	}
	m.out.set("kafka.sasl.username", found[1]+found[2]+found[3])
}
