package migrate

import (
	"maps"
	"slices"
	"strings"
)

// migration is the work on one connector.
type migration struct {
	in     *Input
	router string // alias of the event router in the chain of transformations
	out    settings
	notes  map[string]string // comments in the YAML, by key
	diffs  []string
	slot   string
	pub    string
	file   string // that the configuration goes to, as a word of the shell
}

// Translate accounts for the input. file, which may be empty, is where the configuration will be.
func Translate(in *Input, file string) *Report {
	m := &migration{in: in, file: configFile(file), out: settings{}, notes: map[string]string{}, slot: "debezium", pub: "dbz_publication"}
	m.router = m.findRouter()
	r := &Report{Connector: in.Name, Form: in.Form, Counts: map[Verdict]int{}}
	m.out.set("router.preset", "debezium")
	for _, o := range in.Options {
		verdict := m.judge(o)
		entry := Entry{Option: o.Given, Value: shown(o.Name, o.Value, verdict.verdict != Unknown), Verdict: verdict.verdict, Key: verdict.key, Note: verdict.note}
		if placeholder.MatchString(o.Value) && verdict.verdict != Without {
			entry = m.unresolved(o, entry)
		}
		r.Options = append(r.Options, entry)
	}
	r.Options = append(r.Options, m.absent()...)
	m.postgres()
	m.kafka()
	m.differences()
	for _, e := range r.Options {
		r.Counts[e.Verdict]++
	}
	r.Config = m.yaml(r.Options)
	r.Differences = m.diffs
	r.Takeover, r.Rollback, r.SideBySide = m.takeover(), m.rollback(), m.sideBySide()
	return r
}

// unresolved treats a value that stands elsewhere. A key that got it as it stands would be wrong.
func (m *migration) unresolved(o Option, e Entry) Entry {
	if strings.HasPrefix(o.Name, "database.") || secretName.MatchString(o.Name) {
		e.Note = strings.TrimSpace(e.Note + " " + explain(o.Value))
		return e
	}
	if strings.HasSuffix(o.Name, "route.topic.replacement") {
		return e // ${routedByValue} is a group, no placeholder
	}
	delete(m.out, e.Key)
	e.Verdict, e.Note = Decide, explain(o.Value)+" Put it into the configuration by hand."
	return e
}

func (m *migration) judge(o Option) outcome {
	name, value := o.Name, strings.TrimSpace(o.Value)
	if alias, option, ok := m.transform(name); ok {
		return m.judgeTransform(alias, option, value)
	}
	if found, ok := m.find(connectorRules, strings.TrimPrefix(name, "internal."), value); ok {
		return found
	}
	if m.in.Form == DebeziumServer {
		if found, ok := m.find(serverRules, name, value); ok {
			return found
		}
	}
	if found, ok := m.find(families, name, value); ok {
		return found
	}
	return outcome{Unknown, "", "This version knows no such option of Debezium or Kafka Connect; find out what it does before you switch."}
}

// absent judges the options that are not given and whose default matters.
func (m *migration) absent() []Entry {
	var out []Entry
	note := func(name, value string, verdict Verdict, key, why string) {
		out = append(out, Entry{Option: name + " (not given)", Value: value, Verdict: verdict, Key: key, Note: why})
	}
	without := func(name string) bool { return !m.in.has(name) }
	if without("plugin.name") {
		note("plugin.name", "decoderbufs", Refused, "", pluginNote)
	}
	if without("slot.name") {
		note("slot.name", "debezium", Translated, "postgres.slot", "Debezium's default.")
	}
	if without("publication.name") {
		note("publication.name", "dbz_publication", Translated, "postgres.publication", "Debezium's default.")
	}
	if without("publication.autocreate.mode") {
		note("publication.autocreate.mode", "all_tables", Without, "", allTablesNote)
	}
	if without("topic.prefix") && without("database.server.name") {
		note("topic.prefix", "", Decide, "router.debezium.topic_prefix", "It is part of schema names and of a header: set it to what the connector has.")
	}
	if without("table.include.list") && without("table.whitelist") {
		note("table.include.list", "", Decide, "postgres.tables", "Debezium captures every table; name the outbox table in postgres.tables.")
	}
	for _, side := range []string{"value", "key"} {
		if without(side+".converter") && without("debezium.format."+side) {
			key := "router.debezium." + side + "_converter"
			if m.in.Form == DebeziumServer {
				m.out.set(key, "json_with_schema")
				note("debezium.format."+side, "json", Translated, key, "Debezium Server's default, with schema.")
				continue
			}
			note(side+".converter", "", Decide, key, "The Connect worker's setting holds: give its file with --worker, or set the key. JsonConverter, which sample files have, is json_with_schema, or json with schemas.enable=false.")
		}
	}
	if m.in.Form == DebeziumServer && without("debezium.format.header") {
		m.out.set("router.debezium.header_converter", "json_with_schema")
		note("debezium.format.header", "json", Translated, "router.debezium.header_converter", "Debezium Server's default, with schema.")
	}
	if without("producer.override.bootstrap.servers") {
		note("bootstrap.servers", "", Decide, "kafka.brokers", "The Connect worker has the brokers' addresses: give its file with --worker, or set the key.")
	}
	return out
}

// differences lists what is not an option's matter, or not the same whatever the options say.
func (m *migration) differences() {
	if m.out["router.debezium.columns.timestamp"] == nil {
		m.diff("Record timestamps: Debezium sets the moment at which it handled the row, here it is the time of the commit.")
	}
	m.diff("The header __debezium.context.runId is a new UUID at each start, as it is in Debezium; comparisons have to leave it out.")
	m.diff("A column with a DEFAULT that holds NULL in a row: Debezium writes the default, a NULL payload with DEFAULT '{}' as {}; here NULL is NULL. Schemas (json_with_schema) name no defaults.")
	m.diff("Debezium's other topics are not written: heartbeats, transaction metadata, notifications, schema changes.")
	m.diff("A row that Debezium's task dies of (NULL route, an illegal topic) halts here too, named with its id and LSN; see router.on_bad_row.")
	if m.in.Form == DebeziumServer {
		m.diff("Debezium Server's Kafka sink ignores the partition and the timestamp that the event router chose; such settings are left out, so that records stay where they were. Its header values are JSON.")
	}
}

func (m *migration) diff(sentence string) { m.diffs = append(m.diffs, sentence) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// list splits a comma-separated value.
func list(value string) []string {
	var out []string
	for _, s := range strings.Split(value, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
