package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPresets(t *testing.T) {
	c, err := load(t, "router: {preset: debezium, debezium: {topic_prefix: shop, columns: {route: kind}, additional: "+
		"[\"type:header\"]}}", nil)
	require.NoError(t, err)
	require.Equal(t, "shop", c.Router.Debezium.TopicPrefix)
	require.Equal(t, Columns{
		ID: "id", AggregateType: "kind", AggregateID: "aggregateid", Type: "type", Payload: "payload",
	}, c.Router.Roles())

	c, err = load(t, "router: {debezium: {additional: [], expand_json: false}}", nil)
	require.NoError(t, err, "defaults may be written down")
	require.Equal(t, c.Router.Columns, c.Router.Roles())
}

// A key that the preset does not read would be a setting without effect.
func TestKeysOfTheOtherPreset(t *testing.T) {
	for file, want := range map[string]string{
		"router: {debezium: " +
			"{topic_prefix: x}}": "router.debezium.topic_prefix",
		"router: {debezium: {additional: " +
			"[\"a:header\"]}}": "router.debezium.additional",
		"router: {preset: debezium, debezium: {topic_prefix: x}, topic: y}":                "router.topic",
		"router: {preset: debezium, debezium: {topic_prefix: x}, columns: {id: event_id}}": "router.columns.id",
		"router: {preset: debezium}": "router.debezium.topic_prefix",
		"router: {preset: debezium, debezium: {topic_prefix: x, columns: " +
			"{key: \"\"}}}": "router.debezium.columns.key",
		"router: {preset: debezium, debezium: {topic_prefix: x, " +
			"value_converter: avro}}": "router.debezium.value_converter",
		"router: {preset: debezium, debezium: {topic_prefix: x}, " +
			"dead_letter_topic: \"a b\"}": "router.dead_letter_topic",
	} {
		_, err := load(t, file, nil)
		found := problems(t, err)
		require.Len(t, found, 1, file)
		require.Equal(t, want, found[0].Key)
	}
}

func TestKeysOfAnotherFormatAreWarnedOf(t *testing.T) {
	for file, want := range map[string]string{
		"router: {cloudevents: {source: /x}}":                             "router.cloudevents has no effect",
		"router: {format: envelope, cloudevents: {extensions: [tenant]}}": "router.cloudevents has no effect",
		"router: {envelope: {version: 2}}":                                "router.envelope has no effect",
		"router: {registry: {format: json}}":                              "router.registry.format has no effect",
	} {
		c, err := load(t, file, nil)
		require.NoError(t, err)
		require.Len(t, c.Warnings, 1, file)
		require.Contains(t, c.Warnings[0], want)
	}
	c, err := load(t, "router: {format: envelope, envelope: {version: 2}, registry: {format: avro}}", nil)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
}

func TestDerivedColumns(t *testing.T) {
	const file = "router:\n  json_columns: {k: headers/a, t: \"body/~0x~1y\"}\n  constant_columns: {kind: order}\n"
	c, err := load(t, file+"  columns: {aggregate_id: k, type: kind}\n", []string{"CDC_OUTBOX_KAFKA_BROKERS=k:9092"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "headers/a", "t": "body/~0x~1y"}, c.Router.JSONColumns)
	require.Equal(t, map[string]string{"kind": "order"}, c.Router.ConstantColumns)
	for name, bad := range map[string]string{
		"id":        file + "  columns: {id: k}\n",
		"timestamp": file + "  columns: {timestamp: kind}\n",
		"twice":     "router:\n  json_columns: {k: headers/a}\n  constant_columns: {k: order}\n",
		"polling":   "source: polling\n" + file + "  columns: {aggregate_id: k}\n",
		"first key": "source: polling\n" + file + "  key_columns: [k, id]\n",
		"preset":    "router:\n  preset: debezium\n  json_columns: {k: headers/a}\n",
	} {
		_, err := load(t, bad, []string{"CDC_OUTBOX_KAFKA_BROKERS=k:9092"})
		require.Error(t, err, name)
	}
	_, err = load(t, "source: polling\n"+file+"  key_columns: [id, k]\n", []string{"CDC_OUTBOX_KAFKA_BROKERS=k:9092"})
	require.NoError(t, err)
}
