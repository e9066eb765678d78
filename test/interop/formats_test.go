//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

var (
	sdkPython = []string{
		"cloudevents==1.12.0", "confluent-kafka[avro,json,protobuf,schemaregistry]==2.13.0",
	}
	sdkNode = []string{"kafkajs@2.2.4", "cloudevents@10"}
)

// TestFormats: the SDKs of CloudEvents in Python and JavaScript read the events of both forms, and Confluent's
// deserializers read payloads in the registry's frame.
func TestFormats(t *testing.T) {
	c := cluster(t)
	python := fetched(t, "python-formats", func(dir string) {
		run(t.Context(), t, nil, nil, "python3", "-m", "venv", dir)
		run(t.Context(), t, nil, nil, filepath.Join(dir, "bin", "pip"), append([]string{
			"install", "--quiet", "--only-binary=:all:",
		}, sdkPython...)...)
	})
	node := fetched(t, "node-formats", func(dir string) {
		run(t.Context(), t, nil, nil, "npm", append([]string{
			"install", "--silent", "--no-audit", "--prefix", dir,
		}, sdkNode...)...)
	})
	py := func(t *testing.T, topic, kind string) []map[string]any {
		return decodedLines(t, run(t.Context(), t, nil, nil, filepath.Join(python, "bin", "python"),
			filepath.Join("clients", "formats.py"), strings.Join(c.Addrs(), ","), topic, "2", kind))
	}
	for _, form := range []string{"cloudevents_binary", "cloudevents_structured"} {
		t.Run(form, func(t *testing.T) {
			topic := publish(t, c, "jsonb", map[string]string{
				"CDC_OUTBOX_ROUTER_FORMAT": form, "CDC_OUTBOX_ROUTER_CLOUDEVENTS_SOURCE": "/shop/orders",
				"CDC_OUTBOX_ROUTER_CLOUDEVENTS_EXTENSIONS": "aggregate_id:orderkey",
			}, `'{"name": "Zoë"}'`)
			js := decodedLines(t, run(t.Context(), t, []string{"NODE_PATH=" + filepath.Join(node, "node_modules")}, nil,
				"node", filepath.Join("clients", "cloudevents.js"), strings.Join(c.Addrs(), ","), topic, "2"))
			for i, events := range [][]map[string]any{py(t, topic, form), js} {
				require.Len(t, events, 2)
				for _, e := range events {
					require.Equal(t, "1.0", e["specversion"], "%d", i)
					require.Equal(t, "/shop/orders", e["source"])
					require.Equal(t, "order_placed", e["type"])
					require.Equal(t, "k", e["orderkey"])
					require.NotEmpty(t, e["id"])
					require.NotEmpty(t, e["time"])
					require.Equal(t, map[string]any{"name": "Zoë"}, e["data"], "%d", i)
				}
			}
		})
	}
	for kind, payload := range map[string]string{
		"avro": `'\x0a68656c6c6f'`, "json": `convert_to('{"name": "hello"}', 'UTF8')`,
		"protobuf": `'\x090000000000000440'`, // field 1, 2.5
	} {
		t.Run(kind, func(t *testing.T) {
			topic := publish(t, c, "bytea", map[string]string{
				"CDC_OUTBOX_ROUTER_REGISTRY_SCHEMA_ID_COLUMN": "schema_id", "CDC_OUTBOX_ROUTER_REGISTRY_FORMAT": kind,
			}, payload)
			for _, v := range py(t, topic, kind) {
				if kind == "protobuf" {
					require.Equal(t, map[string]any{"value": 2.5}, v)
				} else {
					require.Equal(t, map[string]any{"name": "hello"}, v)
				}
			}
		})
	}
}

// publish writes two events with a payload, and relays them to a topic of their own.
func publish(t *testing.T, c *kafka.Cluster, payloadType string, settings map[string]string, payload string) string {
	t.Helper()
	db := testkit.Postgres(t)
	table, err := outbox.Schema(outbox.Options{})
	require.NoError(t, err)
	db.Exec(t, table+"ALTER TABLE outbox ADD schema_id int NOT NULL DEFAULT 1")
	if payloadType != "jsonb" {
		db.Exec(t, "ALTER TABLE outbox ALTER payload TYPE "+payloadType+" USING NULL")
	}
	db.Exec(t, "CREATE PUBLICATION "+db.Publication+" FOR TABLE outbox WITH (publish = 'insert')")
	db.Exec(t, "SELECT pg_create_logical_replication_slot('"+db.Slot+"', 'pgoutput')")
	topic := strings.ReplaceAll(db.Slot, "_", ".")
	require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: topic, Partitions: 1}))
	env := map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": strings.Join(c.Addrs(), ","),
		"CDC_OUTBOX_ROUTER_TOPIC": topic,
	}
	for name, value := range settings {
		env[name] = value
	}
	db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', 'k', 'order_placed', %s FROM generate_series(1, 2)`, payload))
	p := begin(t, env)
	require.NoError(t, c.Await(t.Context(), 2, topic))
	code, err := p.Stop(10 * time.Second)
	require.NoError(t, err)
	require.Zero(t, code)
	return topic
}

func decodedLines(t *testing.T, out []byte) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(string(out)) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		all = append(all, v)
	}
	return all
}
