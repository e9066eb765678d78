package migrate

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

const connectJSON = `{
  "name": "outbox-connector",
  "config": {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": 1,
    "plugin.name": "pgoutput",
    "slot.name": "outbox_slot", "publication.name": "outbox_pub", "publication.autocreate.mode": "filtered",
    "database.hostname": "db.internal", "database.user": "dbz", "database.password": "s3cret'canary", ` +
	`"database.dbname": "shop",
    "topic.prefix": "shop", "table.include.list": "public\\.outbox_events,public.heartbeat",
    "heartbeat.interval.ms": "10000", "heartbeat.action.query": "UPDATE heartbeat SET at = now()",
    "tombstones.on.delete": "false",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
    "transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.table.field.event.key": "aggregate_id",
    "transforms.outbox.table.fields.additional.placement": "type:header:eventType, shard:partition",
    "transforms.outbox.route.topic.replacement": "${routedByValue}.events",
    "transforms.outbox.table.expand.json.payload": true,
    "producer.override.bootstrap.servers": "PLAINTEXT://kafka-1:9092,kafka-2:9092", ` +
	`"producer.override.compression.type": "lz4",
    "topic.creation.default.partitions": "6", "topic.creation.default.replication.factor": "3", ` +
	`"topic.creation.default.cleanup.policy": "delete"
  }
}`

func translate(t *testing.T, text string) *Report {
	t.Helper()
	in, err := Parse([]byte(text))
	require.NoError(t, err)
	r := Translate(in, "")
	require.GreaterOrEqual(t, len(r.Options), len(in.Options), "every option is accounted for")
	return r
}

func (r *Report) of(t *testing.T, option string) Entry {
	t.Helper()
	for _, e := range r.Options {
		if e.Option == option || e.Option == option+" (not given)" {
			return e
		}
	}
	t.Fatalf("no entry for %s", option)
	return Entry{}
}

func (r *Report) keys(t *testing.T) map[string]any {
	t.Helper()
	var tree map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(r.Config), &tree))
	flat := map[string]any{}
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for k, v := range m {
			if sub, ok := v.(map[string]any); ok && prefix+k != "kafka.topics.config" {
				walk(prefix+k+".", sub)
				continue
			}
			flat[prefix+k] = v
		}
	}
	walk("", tree)
	return flat
}

func TestTranslate(t *testing.T) {
	r := translate(t, connectJSON)
	require.True(t, r.Settled(), "%+v", r.Options)
	require.Equal(t, map[string]any{
		"postgres.dsn": "postgres://dbz@db.internal:5432/shop?sslmode=prefer", "postgres.slot": "outbox_slot",
		"postgres.publication": "outbox_pub",
		"postgres.tables":      []any{"public.outbox_events"}, "postgres.setup": "never",
		"router.preset": "debezium", "router.debezium.topic_prefix": "shop",
		"router.debezium.columns.key":       "aggregate_id",
		"router.debezium.topic_replacement": "${routedByValue}.events",
		"router.debezium.additional":        []any{"type:header:eventType", "shard:partition"},
		"router.debezium.expand_json":       true, "router.debezium.value_converter": "json",
		"kafka.brokers": []any{"kafka-1:9092", "kafka-2:9092"}, "kafka.compression": "lz4",
		"kafka.topics.create": true, "kafka.topics.partitions": 6,
		"kafka.topics.config": map[string]any{"cleanup.policy": "delete"},
	}, r.keys(t))
	require.NotContains(t, r.Config, "canary")
	require.Equal(t, "***", r.of(t, "database.password").Value)
	require.Contains(t, r.Config, "PGPASSWORD")
	require.Contains(t, r.Takeover[1].Commands[0], "outbox-connector/stop")
	require.Contains(t, r.Takeover[2].Commands[0], "'outbox_slot'")
	require.Contains(t, r.SideBySide[1].Commands[0], "verify.${routedByValue}.events")
	require.NotContains(t, r.SideBySide[1].Why, "topic_regex", "the default matches everything")
}

// TestForms: the same connector in every form it may come in.
func TestForms(t *testing.T) {
	options := [][2]string{
		{"connector.class", "io.debezium.connector.postgresql.PostgresConnector"},
		{"plugin.name", "pgoutput"},
		{"topic.prefix", "shop"},
		{"table.include.list", "public.outbox"},
		{"database.hostname", "db"},
		{"database.dbname", "shop"},
	}
	smt := [][2]string{
		{"transforms", "outbox"},
		{"transforms.outbox.type", eventRouter},
		{"transforms.outbox.route.topic.replacement", "e.${routedByValue}"},
	}
	var bare, props, server strings.Builder
	for i, o := range append(options, smt...) {
		if i > 0 {
			bare.WriteString(",")
		}
		bare.WriteString(`"` + o[0] + `":"` + o[1] + `"`)
		props.WriteString(o[0] + " = " + o[1] + "\n")
	}
	for _, o := range options {
		server.WriteString("debezium.source." + o[0] + "=" + o[1] + "\n")
	}
	for _, o := range smt {
		server.WriteString("debezium." + o[0] + "=" + strings.ReplaceAll(o[1], "${", "$${") + "\n")
	}
	server.WriteString("debezium.sink.type=kafka\ndebezium.sink.kafka.producer.bootstrap.servers=k:9092\n" +
		"quarkus.http.port=8080\n")
	worker := "bootstrap.servers=k:9092\nkey.converter=org.apache.kafka.connect.storage.StringConverter\n" +
		"value.converter=org.apache.kafka.connect.storage.StringConverter\ngroup.id=connect\n"
	for name, text := range map[string]string{
		"bare": "{" + bare.String() + "}", "created": `{"name":"n","config":{` + bare.String() + `}}`,
		"REST": `{"name":"n","config":{` + bare.String() +
			`},"tasks":[{"connector":"n","task":0}],"type":"source"}`,
		"properties": props.String(), "server": server.String(),
		"expanded": `{"other":{"info":{"name":"other","config":{"a":"b"}}},"n":{"info":{"name":"n","config":{` +
			bare.String() + `}}}}`,
		"array": `[{"name":"n","config":{` + bare.String() + `}}]`,
		"resource": "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nspec: {}\n---\n" +
			resource(append(options, smt...)),
		"kubectl": `{"apiVersion":"v1","kind":"List","items":[{"kind":"KafkaConnector","metadata":{"name":"n"},` +
			`"spec":{"tasksMax":1,"config":{` + bare.String() + `}}}]}`,
		"environment": environment(server.String()), "YAML of the server": nested(server.String()),
		"YAML":      "name: n\nconfig: {" + bare.String() + "}\n",
		"bare YAML": strings.ReplaceAll(props.String(), " = ", ": "),
		"MSK":       `{"connectorName":"n","connectorConfiguration":{` + bare.String() + `},"capacity":{}}`,
		"script": "#!/bin/sh\ncurl -d '{\"a\": \"b\"}' x\ncurl -X POST -d '{\"name\":\"n\",\"config\":{" +
			bare.String() + "}}' http://c:8083/connectors\n",
		"here-document": "curl -X PUT http://c:8083/connectors/n/config -d @- <<EOF\n{" + bare.String() + "}\nEOF\n",
		"ksqlDB": "-- outbox\nCREATE SOURCE CONNECTOR IF NOT EXISTS `n` WITH ( -- ours\n'" + strings.NewReplacer(
			" ", "", "=", "'='", "\n", "',\n'").Replace(strings.TrimSpace(props.String())) +
			"');\n",
		"kubectl, two": resource(append(options, smt...)) + "---\n" + resource(options),
		"docker-compose": "services:\n  db:\n    environment:\n      A: b\n  server:\n    environment:\n" +
			indented("      - ", "=", strings.ReplaceAll(server.String(), "$$", "$$$$")),
		"docker-compose, mapping": "services:\n  server:\n    environment:\n" +
			indented("      ", ": ", strings.ReplaceAll(server.String(), "$$", "$$$$")),
		"Deployment": "kind: Deployment\nspec:\n  containers:\n  - env:\n" +
			indented("    - name: ", "\n      value: ", server.String()),
		"ConfigMap": "kind: ConfigMap\ndata:\n  application.properties: |\n" + indentedLines(server.String()),
	} {
		t.Run(name, func(t *testing.T) {
			in, err := Parse([]byte(text))
			require.NoError(t, err)
			if in.Form != DebeziumServer {
				require.NoError(t, in.Worker([]byte(worker)))
			}
			r := Translate(in, "")
			require.True(t, r.Settled(), "%+v", r.Options)
			keys := r.keys(t)
			require.Equal(t, []any{"k:9092"}, keys["kafka.brokers"])
			require.Equal(t, "e.${routedByValue}", keys["router.debezium.topic_replacement"])
			require.Equal(t, "debezium", keys["postgres.slot"])
			if in.Form == DebeziumServer {
				require.Equal(t, "json_with_schema", keys["router.debezium.value_converter"])
				require.Equal(t, "json_with_schema", keys["router.debezium.header_converter"])
			} else {
				require.NotContains(t, keys, "router.debezium.value_converter")
			}
		})
	}
}

// TestConvertersAreWhole: Connect takes a converter's options from the file that names its class, and from no other.
//
// Bug (debezium): `migrate debezium` mixed a converter's options from connector and worker. Cost: JSON without schema
// where Debezium writes it, without an open decision.
func TestConvertersAreWhole(t *testing.T) {
	const class = "org.apache.kafka.connect.json.JsonConverter"
	for name, of := range map[string]struct{ connector, worker, want string }{
		"the connector's class without options": {
			"value.converter=" + class, "value.converter=" + class + "\nvalue.converter.schemas.enable=false",
			"json_with_schema",
		},
		"the connector's options without a class": {
			"value.converter.schemas.enable=false", "value.converter=" + class, "json_with_schema",
		},
		"all in the worker's": {
			"tasks.max=1", "value.converter.schemas.enable=false\nvalue.converter=" + class, "json",
		},
		"all in the connector's": {
			"value.converter.schemas.enable=false\nvalue.converter=" + class,
			"value.converter=a.B\nvalue.converter.schemas.enable=true\nvalue.converter.frobnicate=1", "json",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := Parse([]byte("plugin.name=pgoutput\ntopic.prefix=p\ntable.include.list=public.outbox\n" +
				"transforms=o\ntransforms.o.type=" + eventRouter + "\n" + of.connector))
			require.NoError(t, err)
			require.NoError(t, in.Worker([]byte("bootstrap.servers=k:9092\nkey.converter="+class+"\n"+of.worker)))
			r := Translate(in, "")
			require.True(t, r.Settled(), "%+v", r.Options)
			require.Equal(t, of.want, r.keys(t)["router.debezium.value_converter"])
			require.Equal(t, "json_with_schema", r.keys(t)["router.debezium.key_converter"])
		})
	}
	r := translate(t, "value.converter.schemas.enable=false\nvalue.converter.basic.auth.user.info=canary\n")
	require.Equal(t, Without, r.of(t, "value.converter.schemas.enable").Verdict)
	require.Equal(t, "***", r.of(t, "value.converter.basic.auth.user.info").Value)
}

// TestHeartbeatTables: the table of the heartbeat is not an outbox, but a table is whose name is another word.
//
// Bug (debezium): `migrate debezium` took an outbox for the heartbeat's table because its name was a word of the query.
// Cost: its events would not have been published after the takeover.
func TestHeartbeatTables(t *testing.T) {
	for query, want := range map[string][]any{
		"UPDATE outbox.heartbeat SET at = now()":              {"outbox.outbox", "outbox.payments"},
		"UPDATE heartbeat SET payments=1":                     {"outbox.outbox", "outbox.payments"},
		`INSERT INTO "outbox"."heartbeat"(at) VALUES (now())`: {"outbox.outbox", "outbox.payments"},
		"insert into\noutbox . heartbeat values (1) on conflict do update set at=now()": {
			"outbox.outbox", "outbox.payments",
		},
		"DELETE FROM heartbeat":                        {"outbox.outbox", "outbox.payments"},
		"UPDATE audit.payments SET at = now()":         {"outbox.outbox", "outbox.payments", "outbox.heartbeat"},
		"UPDATE heartbeats SET at = now()":             {"outbox.outbox", "outbox.payments", "outbox.heartbeat"},
		"SELECT pg_logical_emit_message(false,'h','')": {"outbox.outbox", "outbox.payments", "outbox.heartbeat"},
	} {
		in := &Input{Form: ConnectJSON, Options: []Option{
			{Name: "table.include.list", Value: "outbox.outbox,outbox.payments,outbox.heartbeat"},
			{Name: "heartbeat.action.query", Value: query},
		}}
		r := Translate(in, "")
		require.Equal(t, want, r.keys(t)["postgres.tables"], query)
		require.Equal(t, len(want) == 2, strings.Contains(r.Options[0].Note, "Left out"), query)
	}
}

// TestOtherOptionsOfTheSameMeaning: what Debezium and Connect do not read does not win by coming last.
//
// Bug (debezium): `migrate debezium` let an option that Debezium does not read win by coming last. Cost: another topic
// prefix, other tables or another format than before.
func TestOtherOptionsOfTheSameMeaning(t *testing.T) {
	r := translate(t, "topic.prefix=new\ndatabase.server.name=old\n"+
		"table.include.list=public.events\ntable.whitelist=public.old\n"+
		"value.converter=org.apache.kafka.connect.storage.StringConverter\n"+
		"internal.value.converter="+jsonConverter+"\ninternal.value.converter.schemas.enable=false\n")
	keys := r.keys(t)
	require.Equal(t, "new", keys["router.debezium.topic_prefix"])
	require.Equal(t, []any{"public.events"}, keys["postgres.tables"])
	require.NotContains(t, keys, "router.debezium.value_converter", "string, the default")
	for _, name := range []string{
		"database.server.name", "table.whitelist",
		"internal.value.converter", "internal.value.converter.schemas.enable",
	} {
		require.Equal(t, Without, r.of(t, name).Verdict, name)
	}
	require.Equal(t, "old", translate(t, "database.server.name=old\n").keys(t)["router.debezium.topic_prefix"])
}

// TestPlaceholders: what is not known is not taken for the default, for a group, or for nothing.
//
// Bug (debezium): `migrate debezium` took a placeholder for the default value, or for a group of the regular
// expression. Cost: "nothing to do" where stopping Debezium drops the slot; a topic name that does not resolve.
func TestPlaceholders(t *testing.T) {
	const head = "transforms=o\ntransforms.o.type=" + eventRouter + "\n"
	for line, want := range map[string]Verdict{
		"slot.drop.on.stop=${env:X}":                                                                     Decide,
		"skipped.operations=${env:X}":                                                                    Decide,
		"event.processing.failure.handling.mode=${env:X}":                                                Decide,
		"producer.override.partitioner.ignore.keys=${env:X}":                                             Decide,
		"heartbeat.interval.ms=${env:X}":                                                                 Without,
		"producer.override.acks=${env:X}":                                                                Without,
		"publish.via.partition.root=${env:X}":                                                            Without,
		"transforms.o.route.topic.replacement=${file:/x:y}.${routedByValue}":                             Decide,
		"transforms.o.route.topic.replacement=${PREFIX}.${routedByValue}":                                Translated,
		"transforms.o.route.topic.replacement=x.${routedByValue}":                                        Translated,
		"transforms.o.route.topic.replacement=${a}-${b}\ntransforms.o.route.topic.regex=(?<a>.)(?<b>.*)": Translated,
	} {
		r := translate(t, head+line+"\n")
		name, _, _ := strings.Cut(line, "=")
		e := r.of(t, name)
		require.Equal(t, want, e.Verdict, line)
		if want == Decide {
			require.NotContains(t, r.keys(t), "router.debezium.topic_replacement", line)
		}
	}
	server := translate(t, "debezium.source.topic.prefix=p\ndebezium.transforms=o\ndebezium.transforms.o.type="+
		eventRouter+"\ndebezium.transforms.o.route.topic.replacement=${PREFIX}.${routedByValue}\n")
	require.Equal(t, DebeziumServer, server.Form)
	require.Equal(t, Decide, server.of(t, "debezium.transforms.o.route.topic.replacement").Verdict)

	require.Contains(t, translate(t, head+"slot.drop.on.stop=${env:X}\n").of(t, "slot.drop.on.stop").Note, "LOST")

	r := translate(t, "topic.creation.default.cleanup.policy=compact\ntopic.creation.default.retention.ms=${env:X}\n"+
		"topic.creation.default.max.message.bytes=5\n")
	require.Equal(t, map[string]any{"cleanup.policy": "compact", "max.message.bytes": "5"},
		r.keys(t)["kafka.topics.config"])
	require.Equal(t, Decide, r.of(t, "topic.creation.default.retention.ms").Verdict)
}

// TestServerIgnores: what Debezium Server's sink ignores must not begin to work by a change of tools.
func TestServerIgnores(t *testing.T) {
	r := translate(t, "debezium.source.plugin.name=pgoutput\ndebezium.transforms=o\ndebezium.transforms.o.type="+
		eventRouter+
		"\ndebezium.transforms.o.table.field.event.timestamp=at\n"+
		"debezium.transforms.o.table.fields.additional.placement=shard:partition,type:header\n")
	require.NotContains(t, r.keys(t), "router.debezium.columns.timestamp")
	require.Equal(t, []any{"type:header"}, r.keys(t)["router.debezium.additional"])
	s := translate(t, "debezium.source.plugin.name=pgoutput\ndebezium.source.bootstrap.servers=k:9092\n"+
		"debezium.source.acks=1\n")
	require.Contains(t, s.of(t, "debezium.source.bootstrap.servers").Note, "keeps its offsets in Kafka")
	require.Contains(t, s.of(t, "debezium.source.acks").Note, "had no effect")
}

// TestVerdicts goes through what cannot pass unnoticed.
func TestVerdicts(t *testing.T) {
	const head = "transforms=outbox,other\ntransforms.outbox.type=" + eventRouter + "\n"
	for line, want := range map[string]Verdict{
		"plugin.name=decoderbufs": Refused,
		"plugin.name=pgoutput":    Without,
		"connector.class=io.debezium.connector.mysql.MySqlConnector": Refused,
		"snapshot.mode=initial":                                        Without,
		"snapshot.mode=always":                                         Decide,
		"snapshot.mode=initial_only":                                   Refused,
		"snapshot.mode=schema_only_recovery":                           Without,
		"snapshot.mode=com.acme.Own":                                   Decide,
		"database.history.kafka.topic=h":                               Without,
		"schema.include.list=Public\ntable.include.list=public.outbox": Without,
		"schema.include.list=a,b\ntable.include.list=a.outbox,c.o":     Decide,
		"acks=1":                                                     Without,
		"bootstrap.servers=k:9092":                                   Without,
		"sasl.jaas.config=x":                                         Without,
		"slot.drop.on.stop=true":                                     Decide,
		"slot.drop.on.stop=false":                                    Without,
		"errors.tolerance=all":                                       Decide,
		"errors.tolerance=none":                                      Translated,
		"exactly.once.support=required":                              Translated,
		"exactly.once.support=requested":                             Decide,
		"skipped.operations=c":                                       Refused,
		"skipped.operations=u,d,t":                                   Without,
		"table.include.list=public.outbox_.*":                        Decide,
		"table.include.list=public.a,public.b":                       Translated,
		"table.include.list=public.my outbox,shop-1.out-box":         Translated,
		"value.converter=io.confluent.connect.avro.AvroConverter":    Refused,
		"value.converter=io.debezium.converters.BinaryDataConverter": Translated,
		"value.converter.schema.registry.url=http://r\nvalue.converter=" + jsonConverter: Refused,
		"lsn.flush.mode=manual":                           Decide,
		"flush.lsn.source=false":                          Decide,
		"provide.transaction.metadata=true":               Decide,
		"message.prefix.include.list=a":                   Decide,
		"column.mask.with.10.chars=public.outbox.payload": Refused,
		"extended.headers.enabled=false":                  Translated,
		"time.precision.mode=adaptive":                    Translated,
		"time.precision.mode=weird":                       Refused,
		"producer.override.acks=1":                        Without,
		"producer.override.partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner": Refused,
		"producer.override.sasl.mechanism=GSSAPI":                                                     Refused,
		"producer.override.ssl.truststore.location=/a.jks":                                            Decide,
		"producer.override.frobnicate=1":                                                              Unknown,
		"frobnicate=1":                                                                                Unknown,
		"internal.log.position.check.enable=true":                                                     Without,
		"driver.socketTimeout=10":                                                                     Decide,
		"transforms.outbox.frobnicate=1":                                                              Unknown,
		"transforms.outbox.predicate=isOutbox":                                                        Decide,
		"transforms.other.type=org.apache.kafka.connect.transforms.InsertHeader":                      Decide,
		"transforms.other.type=com.example.Encrypt":                                                   Refused,
		"transforms.absent.type=com.example.Encrypt":                                                  Without,
		"transforms.outbox.table.op.invalid.behavior=warn":                                            Translated,
		"transforms.outbox.table.op.invalid.behavior=fatal":                                           Translated,
		"transforms.outbox.tracing.span.context.field=t":                                              Decide,
		"transforms.outbox.table.fields.additional.placement=type:headers":                            Refused,
		"transforms.outbox.table.fields.additional.placement=type":                                    Refused,
		`transforms.outbox.route.topic.regex=(?<routedByValue>[a-z]+)\\.(.*)`:                         Translated,
		"transforms.outbox.route.topic.regex=(?!internal)(.*)":                                        Refused,
		"transforms.outbox.route.topic.regex=[a-z&&[^b]]+":                                            Refused,
		"transforms.outbox.route.topic.regex=a++b":                                                    Refused,
		`transforms.outbox.route.topic.regex=(a)\\1`:                                                  Refused,
		"topic.prefix=${env:PREFIX}":                                                                  Decide,
	} {
		t.Run(line, func(t *testing.T) {
			r := translate(t, head+line+"\n")
			name, _, _ := strings.Cut(line, "=")
			e := r.of(t, name)
			require.Equal(t, want, e.Verdict, e.Note)
			require.True(t, e.Note != "" || e.Key != "")
		})
	}
}

// TestDefaultsThatMatter: Debezium's defaults are part of the configuration.
func TestDefaultsThatMatter(t *testing.T) {
	r := translate(t, "transforms=outbox\ntransforms.outbox.type="+eventRouter+"\n")
	for option, want := range map[string]Verdict{
		"plugin.name": Refused, "slot.name": Translated, "publication.name": Translated, "topic.prefix": Decide,
		"table.include.list": Decide, "value.converter": Decide, "key.converter": Decide, "bootstrap.servers": Decide,
	} {
		require.Equal(t, want, r.of(t, option).Verdict, option)
	}
	require.False(t, r.Settled())
	require.Equal(t, Refused, translate(t, "plugin.name=pgoutput\ntransforms=x\ntransforms.x.type=a.B\n").
		of(t, "transforms").Verdict)
}

// TestSideBySide compares the events' topics and no others, which would count as different.
//
// Bug (debezium): `migrate debezium` advised to verify with an empty prefix. Cost: topics of other programs were
// compared as well.
func TestSideBySide(t *testing.T) {
	for replacement, want := range map[string]string{
		"":                        "--left-prefix 'outbox.event.' --right-prefix 'verify.outbox.event.'",
		"shop-${routedByValue}":   "--left-prefix 'shop-' --right-prefix 'verify.shop-'",
		`a\\.b.${routedByValue}`:  "--left-prefix 'a.b.' --right-prefix 'verify.a.b.'",
		"${routedByValue}.events": "--topic TOPIC=verify.TOPIC",
	} {
		text := "transforms=o\ntransforms.o.type=" + eventRouter + "\n"
		if replacement != "" {
			text += "transforms.o.route.topic.replacement=" + replacement + "\n"
		}
		step := translate(t, text).SideBySide[2]
		require.Equal(t, "cdc-outbox migrate verify --config cdc-outbox.yaml --overlap "+want, step.Commands[0])
		require.Equal(t, want[:7] == "--topic", strings.Contains(step.Why, "repeat --topic"))
	}
}

// TestContextHeaders: older versions of Debezium have no such option, and no such headers.
//
// Bug (debezium): `migrate debezium` did not say that Debezium before 3.2 writes no context headers. Cost: four new
// headers in every record.
func TestContextHeaders(t *testing.T) {
	require.Contains(t, strings.Join(translate(t, connectJSON).Differences, "\n"),
		"set router.debezium.context_headers: false")
	r := translate(t, "extended.headers.enabled=false\n")
	require.NotContains(t, strings.Join(r.Differences, "\n"), "router.debezium.context_headers")
	require.Equal(t, false, r.keys(t)["router.debezium.context_headers"])
}

// TestSecrets: no value that may be a secret is repeated, and placeholders are explained.
func TestSecrets(t *testing.T) {
	r := translate(t, `database.hostname=${env:DBHOST}
database.password=${file:/opt/pg.properties:password}
producer.override.security.protocol=SASL_SSL
producer.override.sasl.mechanism=SCRAM-SHA-512
producer.override.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="relay" `+
		`password="canary";
producer.override.ssl.keystore.key=canary
my.unknown.token=canary
frobnicate=canary
driver.password=canary
`)
	text := r.Config
	for _, e := range r.Options {
		text += e.Value + e.Note
	}
	require.NotContains(t, text, "canary")
	require.Contains(t, r.of(t, "database.password").Note,
		"the entry password of the properties file /opt/pg.properties")
	require.Contains(t, r.Config, "PGHOST")
	require.Equal(t, "relay", r.keys(t)["kafka.sasl.username"])
	require.Equal(t, true, r.keys(t)["kafka.tls.enabled"])
	require.NotContains(t, r.keys(t), "postgres.dsn")
}

// TestSASL: without a mechanism Kafka's client uses Kerberos; a user's name is read as Java reads it, or not at all.
//
// Bug (debezium): `migrate debezium` did not report Kerberos as SASL's default, and misread a JAAS user in single
// quotes. Cost: a configuration that cannot log in.
func TestSASL(t *testing.T) {
	for _, protocol := range []string{"SASL_SSL", "sasl_plaintext"} {
		r := translate(t, "producer.override.security.protocol="+protocol+"\n")
		require.Equal(t, Refused, r.of(t, "producer.override.sasl.mechanism").Verdict)
		require.Contains(t, r.Config, "kafka.sasl.mechanism")
	}
	for written, want := range map[string]any{
		`username="al ice" password="p";`: "al ice", `username='al ice' password='p';`: "al ice",
		`username=alice password=p;`: "alice", `password=p username=alice;`: "alice",
		`username="al\\"ice" password="p";`: nil, `username='a\\'b' password="p";`: nil,
		`username=ali\\ ce password=p;`: nil, `password="p";`: nil,
	} {
		r := translate(t, "producer.override.sasl.mechanism=PLAIN\n"+
			"producer.override.sasl.jaas.config=a.PlainLoginModule required "+written+"\n")
		require.Equal(t, want, r.keys(t)["kafka.sasl.username"], written)
		require.Equal(t, want == nil, strings.Contains(r.Config, "CDC_OUTBOX_KAFKA_SASL_USERNAME"), written)
	}
}

// TestEveryOption holds the rules against the list of names.
func TestEveryOption(t *testing.T) {
	f, err := os.Open("testdata/options.txt")
	require.NoError(t, err)
	defer f.Close()
	known := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if name := s.Text(); !strings.HasPrefix(name, "#") {
			known[name] = true
			r := translate(t, "transforms=outbox\ntransforms.outbox.type="+eventRouter+"\n"+name+"=x\n")
			require.NotEqual(t, Unknown, r.of(t, name).Verdict, name)
		}
	}
	require.Greater(t, len(known), 180)
	old := map[string]bool{
		"database.server.name": true, "table.whitelist": true, "snapshot.scan.all.columns.force": true,
		"multi.partition.mode": true,
	}
	for _, r := range connectorRules {
		for name := range strings.FieldsSeq(r.options) {
			require.True(t, known[name] || old[name] || strings.HasPrefix(name, "offset.") || known["internal."+name],
				"a rule for %s, which is not in the list", name)
		}
	}
	for _, r := range routerRules {
		for name := range strings.FieldsSeq(r.options) {
			require.True(t, known["transforms.outbox."+name], name)
		}
	}
}

// TestKeysExist: what the rules name is in the configuration's reference.
func TestKeysExist(t *testing.T) {
	known := map[string]bool{}
	for _, f := range config.Fields() {
		known[f.Key] = true
	}
	f, err := os.ReadFile("testdata/options.txt")
	require.NoError(t, err)
	for _, value := range []string{
		"true", "2", "json", "string", "kafka", "required", jsonConverter, "a.b", "x:header",
	} {
		var in strings.Builder
		in.WriteString("transforms=outbox\ntransforms.outbox.type=" + eventRouter + "\n")
		for _, name := range strings.Fields(string(f)) {
			if strings.Contains(name, ".") && !strings.Contains(name, "transforms.outbox.type") &&
				!strings.ContainsAny(name, "(),:;") {
				in.WriteString(name + "=" + value + "\n")
			}
		}
		parsed, err := Parse([]byte(in.String()))
		require.NoError(t, err)
		r := Translate(parsed, "")
		for _, e := range r.Options {
			for key := range strings.SplitSeq(e.Key, " ") {
				section := key == "kafka.tls" || key == "kafka.sasl" || key == "kafka.topics"
				require.True(t, key == "" || known[key] || section, "%s -> %s", e.Option, key)
			}
		}
		for key := range r.keys(t) {
			require.True(t, known[key] || key == config.Undecided, key)
		}
	}
}
