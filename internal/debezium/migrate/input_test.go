package migrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// resource is a KafkaConnector with quoted values.
func resource(options [][2]string) string {
	var b strings.Builder
	b.WriteString("apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnector\nmetadata:\n  name: n\nspec:\n" +
		"  class: " + options[0][1] + "\n  tasksMax: 1\n  config:\n")
	for _, o := range options[1:] {
		b.WriteString("    " + o[0] + `: "` + o[1] + "\"\n")
	}
	return b.String()
}

// environment has a server's properties as variables.
func environment(properties string) string {
	var b strings.Builder
	for line := range strings.Lines(properties) {
		name, value, _ := strings.Cut(line, "=")
		b.WriteString("export " + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name)) + "='" +
			strings.TrimSpace(value) + "'\n")
	}
	return b.String()
}

// nested has a server's properties as YAML, with the last part of each name below the others.
func nested(properties string) string {
	var b strings.Builder
	b.WriteString("debezium:\n")
	for line := range strings.Lines(properties) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name, ok := strings.CutPrefix(name, "debezium."); ok {
			b.WriteString("  " + name + ": \"" + value + "\"\n")
		}
	}
	return b.String()
}

// indented has a server's properties as variables, each after a head.
func indented(head, separator, properties string) string {
	var b strings.Builder
	for line := range strings.Lines(properties) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		name = strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name))
		b.WriteString(head + name + separator + value + "\n")
	}
	return b.String()
}

func manyOptions() string {
	var b strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&b, "transforms.t%d.type=canary\n", i)
	}
	return b.String()
}

func indentedLines(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// A file that is not one connector's configuration is named for the form that it has; nothing of it is quoted.
//
// Bug (debezium): `migrate debezium` read a KafkaConnector, a shell script or variables as a property file. Cost:
// quotes became a part of hosts and topics.
func TestFormIsNamed(t *testing.T) {
	for _, of := range []struct{ text, want string }{
		{"", "no options"},
		{"{", "line 1"},
		{"{\n  \"a\": \"b\",\n}", "line 3, column 1"},
		{`{"config": 3}`, "not a JSON object"},
		{`{"a": ["b"]}`, "option a"},
		{"{}", "no options"},
		{`{"a":"canary","a":"c"}`, "option a is given twice"},
		{`{"config":{"a":1,"a":2}}`, "option a is given twice"},
		{`["canary", "b"]`, "list of connectors' names"},
		{"[1]", "not of connectors"},
		{`[{"name":"x","config":{"a":"canary"}},{"name":"y","config":{"a":"b"}}]`, "2 connectors (x, y)"},
		{"#!/bin/sh\ncurl -d '{\"canary\": 1}' http://c:8083", "shell script"},
		{"curl -X POST http://c:8083/connectors -d @- <<EOF\n{}\nEOF", "shell script"},
		{"\n\nCREATE SOURCE CONNECTOR outbox WITH (\n'password' 'canary');", "ksqlDB, and line 4 of it cannot be read"},
		{"CREATE SOURCE CONNECTOR outbox USING ('password'='canary');", "ksqlDB, and line 1"},
		{"CREATE SOURCE CONNECTOR a WITH ();\nCREATE SINK CONNECTOR b WITH ();", "2 statements"},
		{"CREATE SOURCE CONNECTOR outbox WITH ('password'='canary');", "no option that a connector has"},
		{"curl -d '{\"config\":{\"a\":\"canary\",\"a\":\"b\"}}' x", "in its JSON, option a is given twice"},
		{`{"error_code":404,"message":"canary"}`, "an error that Kafka Connect has answered"},
		{`{"name":"n","connector":{"state":"RUNNING"},"tasks":[]}`, "expand=info"},
		{`{"n":{"status":{"name":"n","connector":{"state":"RUNNING"}}}}`, "expand=info"},
		{`{"config":{"topic.prefix":"a"},"slot.name":"canary"}`, "option slot.name is beside"},
		{`{"topic.prefix":null}`, "option topic.prefix: the value is not a string"},
		{"\xff\xfe{\x00", "iconv -f UTF-16"},
		{"<html><body>canary</body></html>", "no option that a connector has"},
		{"resource \"c\" \"outbox\" {\n  config = {\n    \"topic.prefix\" = \"canary\"\n  }\n}\n", "in quotes"},
		{"topic.prefix='canary'\n", "option topic.prefix: the value is in quotes"},
		{"debezium:\n  source: &s\n    a: canary\n  sink: *s\n", "line 4 has an anchor's alias"},
		{"kind: KafkaConnector\nspec:\n  config:\n    database.hostname: {{ .Values.canary }}\n", "(line 4)"},
		{"kind: KafkaConnector\nspec:\n\tconfig: canary\n", "in line 3"},
		{manyOptions(), "at most 1000"},
		{"topic.prefix=" + strings.Repeat("canary", 6000), "option topic.prefix: the value is longer than 32 KiB"},
		{"services:\n  debezium:\n    environment: [PASSWORD=canary]\n", "YAML without a KafkaConnector"},
		{"kind: KafkaConnector\nmetadata: {name: n}\nspec: {class: c}\n", "no spec.config"},
		{"kind: KafkaConnector\nspec:\n  config:\n    a: [canary]\n", "option a"},
		{"kind: KafkaConnector\nspec:\n  config: {a: canary, a: b}\n", "option a is given twice"},
		{
			"kind: KafkaConnector\nspec: {config: {a: b}}\n---\nkind: KafkaConnector\nspec: {config: {a: b}}\n",
			"2 connectors",
		},
		{"kind: [canary\n", "cannot be read as YAML"},
		{"kind: &a [*a, *a]\nspec: *a\n", "YAML without a KafkaConnector"},
	} {
		_, err := Parse([]byte(of.text))
		require.ErrorContains(t, err, of.want, of.text)
		require.NotContains(t, err.Error(), "canary")
	}
}

// Bug (debezium): `migrate debezium` took the gaps of a template for values. Cost: a slot named <svc>_slot, and an exit
// code that calls the configuration settled.
func TestGapsOfTemplatesAreOpen(t *testing.T) {
	for line, open := range map[string]bool{
		"slot.name=<svc>_slot":                                        true,
		"slot.name=${SVC}_slot":                                       true,
		"publication.name={{ .Values.publication }}":                  true,
		"publication.name=[publication]":                              true,
		"publication.name={{% publication %}}":                        true,
		"publication.name=<%= publication %>":                         true,
		"slot.name={slot}":                                            true,
		"slot.name=__SLOT__":                                          true,
		"slot.name=#{slot}#":                                          true,
		"slot.name=$slot":                                             true,
		"database.dbname=your-database":                               true,
		"database.user=YOUR_USER":                                     true,
		"topic.prefix=%TOPIC_PREFIX%":                                 true,
		"topic.prefix=@topic.prefix@":                                 true,
		"topic.prefix=PREFIX_HERE":                                    true,
		"table.include.list=public.out$box":                           false,
		"database.user=yourself":                                      false,
		"database.hostname={{ .Values.db.host }}":                     true,
		"database.user=REQUIRED":                                      true,
		"topic.prefix=change-me":                                      true,
		"topic.prefix=$PREFIX":                                        true,
		"producer.override.bootstrap.servers=<broker>:9092":           true,
		"table.include.list=public.<table>":                           true,
		"transforms.o.route.topic.regex=(?<routedByValue>.*)":         false,
		"transforms.o.route.topic.replacement=${routedByValue}.event": false,
		"topic.prefix=required":                                       false,
	} {
		r := translate(t, "transforms=o\ntransforms.o.type="+eventRouter+"\n"+line+"\n")
		name, value, _ := strings.Cut(line, "=")
		require.Equal(t, open, r.of(t, name).Verdict == Decide, line)
		for key, set := range r.keys(t) {
			if key != "undecided" {
				require.False(t, open && set == value, "%s: %v", key, set)
			}
		}
	}
	require.Equal(t, Decide, translate(t, "database.hostname=db\n").of(t, "database.dbname").Verdict)
}

// Bug (debezium): `migrate debezium` folded the names of tables to lower case, and kept tables that the event router's
// predicate excludes. Cost: a relay that does not start, or whose first row halts it.
func TestTablesAreTheRouted(t *testing.T) {
	const head = "topic.prefix=shop\ntransforms=o\ntransforms.o.type=" + eventRouter + "\n"
	const predicate = "transforms.o.predicate=p\npredicates=p\n" +
		"predicates.p.type=org.apache.kafka.connect.transforms.predicates.TopicNameMatches\npredicates.p.pattern="
	for name, of := range map[string]struct {
		text    string
		tables  []any
		verdict Verdict // of the predicate
		open    bool    // which tables are outboxes
	}{
		"case is kept": {
			text:   "table.include.list=Sales Dept.OutBox,public.OutboxMessages,PUBLIC.outbox_2",
			tables: []any{`"Sales Dept"."OutBox"`, `public."OutboxMessages"`, "public.outbox_2"},
		},
		"negate": {
			text: "table.include.list=public.events,public.heartbeat\ntransforms.o.negate=true\n" + predicate +
				".*heartbeat.*",
			tables: []any{"public.events"}, verdict: Translated,
		},
		"selected": {
			text:   "table.include.list=public.events,public.heartbeat\n" + predicate + `shop\\.public\\.(events|x)`,
			tables: []any{"public.events"}, verdict: Translated,
		},
		"all selected": {
			text:   "table.include.list=public.events,public.more\n" + predicate + "shop.*",
			tables: []any{"public.events", "public.more"}, verdict: Without,
		},
		"none selected": {
			text: "table.include.list=public.events\n" + predicate + "events", verdict: Refused, open: true,
		},
		"a heartbeat by its name": {
			text: "table.include.list=public.events,public.debezium_heartbeat", tables: []any{
				"public.events", "public.debezium_heartbeat",
			}, open: true,
		},
		"an outbox by the predicate": {
			text:   "table.include.list=public.events,public.heartbeat_events\n" + predicate + "shop.*_events",
			tables: []any{"public.heartbeat_events"}, verdict: Translated,
		},
		"unknown": {
			text:   "table.include.list=public.events,public.heartbeat\n" + predicate + "(?!shop).*",
			tables: []any{"public.events", "public.heartbeat"}, verdict: Decide,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := translate(t, head+of.text+"\n")
			tables, _ := r.keys(t)["postgres.tables"].([]any)
			require.Equal(t, of.tables, tables)
			require.Equal(t, of.open, r.of(t, "table.include.list").Verdict == Decide)
			if of.verdict != "" {
				e := r.of(t, "transforms.o.predicate")
				require.Equal(t, of.verdict, e.Verdict, e.Note)
				require.Equal(t, strings.Contains(of.text, "negate=true"), strings.Contains(e.Note, "does not select"))
			}
		})
	}
}

// What the configuration's loader refuses is left open, and a chain is judged by its members.
//
// Bug (debezium): `migrate debezium` translated values that the loader refuses, such as a slot's name in upper case,
// and left a chain open whose members it had judged. Cost: exit code 0 and a configuration that does not load; a
// decision about nothing.
func TestSettledLoads(t *testing.T) {
	base := "topic.prefix=shop\nplugin.name=pgoutput\ntable.include.list=public.outbox\n" +
		"key.converter=org.apache.kafka.connect.storage.StringConverter\n" +
		"value.converter=org.apache.kafka.connect.storage.StringConverter\n" +
		"producer.override.bootstrap.servers=SASL_SSL://k1:9092; k2:9092 ,k3:9092\ntransforms=BEFOREo\n" +
		"transforms.o.type=" + eventRouter + "\n"
	chain := "transforms.f.type=io.debezium.transforms.Filter\ntransforms.f.predicate=p\npredicates=p\n" +
		"predicates.p.type=org.apache.kafka.connect.transforms.predicates.RecordIsTombstone\n"
	const notTombstones = "transforms.f.negate=true"
	for name, of := range map[string]struct{ before, more, open string }{
		"nothing":                    {},
		"slot's name":                {more: "slot.name=Outbox", open: "slot.name"},
		"schemas as patterns":        {more: "schema.include.list=pub.*\nsnapshot.mode=schema_only_recovery"},
		"schemas of other tables":    {more: "schema.include.list=sales", open: "schema.include.list"},
		"tombstones before":          {before: "f,", more: chain},
		"other records before":       {before: "f,", more: chain + notTombstones, open: "transforms.f.type"},
		"a member without its class": {before: "f,", open: "transforms"},
	} {
		t.Run(name, func(t *testing.T) {
			r := translate(t, strings.Replace(base, "BEFORE", of.before, 1)+of.more+"\n")
			for _, e := range r.Options {
				require.Equal(t, e.Option == of.open, e.Verdict == Decide, "%+v", e)
			}
			require.Equal(t, of.open == "", r.Settled())
			require.Equal(t, []any{"k1:9092", "k2:9092", "k3:9092"}, r.keys(t)["kafka.brokers"])
			require.NotContains(t, r.Config, "slot: Outbox")
		})
	}
	open := translate(t, strings.Replace(base, "k2:9092 ", "k2", 1))
	require.Equal(t, Decide, open.of(t, "producer.override.bootstrap.servers").Verdict)
	all := translate(t, "topic.prefix=shop\nschema.include.list=sales\n")
	require.Contains(t, all.of(t, "table.include.list").Note, "of the schemas sales")
	require.Equal(t, Without, all.of(t, "schema.include.list").Verdict)
}
