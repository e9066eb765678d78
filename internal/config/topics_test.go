package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopicRules(t *testing.T) {
	file := `
kafka:
  topics:
    create: true
    replication_factor: 2
    config: {min.insync.replicas: 2, retention.ms: 0604800000}
    rules:
      - pattern: orders.*
        partitions: 24
        config:
          retention.ms: -1
          cleanup.policy: compact
      - {pattern: "orders.big", partitions: 99}
      - {pattern: "?udit", replication_factor: 3}
`
	c, err := load(t, file, nil)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	topics := &c.Kafka.Topics
	for name, want := range map[string]TopicRule{
		"payments.events": {
			Partitions: 12, ReplicationFactor: 2,
			Config: map[string]string{"min.insync.replicas": "2", "retention.ms": "0604800000"},
		},
		"ordersXevents": {
			Partitions: 12, ReplicationFactor: 2,
			Config: map[string]string{"min.insync.replicas": "2", "retention.ms": "0604800000"},
		},
		"orders.big": {
			Pattern: "orders.*", Partitions: 24, ReplicationFactor: 2,
			Config: map[string]string{"min.insync.replicas": "2", "retention.ms": "-1", "cleanup.policy": "compact"},
		},
		"audit": {
			Pattern: "?udit", Partitions: 12, ReplicationFactor: 3,
			Config: map[string]string{"min.insync.replicas": "2", "retention.ms": "0604800000"},
		},
	} {
		require.Equal(t, want, topics.For(name), name)
	}
	require.Len(t, topics.Config, 2, "For has left it alone")

	again, err := c.YAML(true)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "again.yaml")
	require.NoError(t, os.WriteFile(path, again, 0o600))
	d, err := load(t, "", nil, "--config", path)
	require.NoError(t, err, "%s", again)
	require.Equal(t, c.Kafka.Topics, d.Kafka.Topics, "what config prints can be read again")

	e, err := load(t, file, []string{`CDC_OUTBOX_KAFKA_TOPICS_RULES=[{"pattern": "*", "partitions": "5"}]`},
		`--kafka-topics-config={"compression.type": "lz4", "retention.ms": 5, "preallocate": true}`)
	require.NoError(t, err)
	require.Equal(t, TopicRule{
		Pattern: "*", Partitions: 5, ReplicationFactor: 2,
		Config: map[string]string{"compression.type": "lz4", "retention.ms": "5", "preallocate": "true"},
	},
		e.Kafka.Topics.For("anything"))

	w, err := load(t, "kafka: {topics: {config: {a: b}}}", nil)
	require.NoError(t, err)
	require.Len(t, w.Warnings, 1)
}

func TestBadTopicRules(t *testing.T) {
	for value, want := range map[string]string{
		`{rules: {pattern: a}}`:                                     "does not have the right form",
		`{rules: [{pattern: a, partition: 3}]}`:                     `unknown key "partition"`,
		`{rules: [{partitions: 3}]}`:                                "rule 1 has no usable pattern",
		`{rules: [{pattern: "a["}]}`:                                "rule 1 has no usable pattern",
		`{rules: [{pattern: a, partitions: -1}]}`:                   "out of range",
		`{rules: [{pattern: a, replication_factor: 40000}]}`:        "out of range",
		`{rules: [{pattern: a, partitions: many}]}`:                 "kafka.topics.rules",
		`{rules: [{pattern: a, config: {b: {c: d}}}]}`:              "takes a text, a number",
		`{rules: nonsense}`:                                         "is not JSON",
		`{rules: '[] []'}`:                                          "something after",
		`{config: [a, b]}`:                                          "does not have the right form",
		`{config: {a: b, a: c}}`:                                    "a key twice",
		`{config: {a: }}`:                                           `"a" has no name or no value`,
		`{config: {"a b": c}}`:                                      `"a b" has no name or no value`,
		"{rules: &x [{pattern: a, config: {b: [*x]}}]}":             "kafka.topics.rules",
		`{partitions: 3000000000}`:                                  "too large",
		`{replication_factor: 0}`:                                   "too small",
		`{rules: [{pattern: a}], config: '{"retention.ms": null}'}`: "takes a text, a number",
		`{config: "{\"x\": 1} trailing"}`:                           "something after",
	} {
		_, err := load(t, "kafka: {topics: "+value+"}", nil)
		require.ErrorContains(t, err, want, value)
	}
}
