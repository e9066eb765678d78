package migrate

import (
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
		{"CREATE SOURCE CONNECTOR outbox WITH ('password'='canary');", "ksqlDB"},
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
			text: "table.include.list=public.events\n" + predicate + "events", tables: nil, verdict: Refused,
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
			if of.verdict != "" {
				e := r.of(t, "transforms.o.predicate")
				require.Equal(t, of.verdict, e.Verdict, e.Note)
				require.Equal(t, strings.Contains(of.text, "negate=true"), strings.Contains(e.Note, "does not select"))
			}
		})
	}
}
