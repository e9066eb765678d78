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
	passed *rule             // the rule that the present option's value might have met; see find
	diffs  []string
	slot   string
	pub    string
	file   string // that the configuration goes to, as a word of the shell
}

// Translate accounts for the input. file, which may be empty, names the future configuration file.
func Translate(in *Input, file string) *Report {
	m := &migration{
		in: in, file: configFile(file), out: settings{}, notes: map[string]string{},
		slot: "debezium", pub: "dbz_publication",
	}
	m.router = m.findRouter()
	r := &Report{Connector: in.Name, Form: in.Form, From: in.From, Counts: map[Verdict]int{}}
	m.out.set("router.preset", "debezium")
	for _, o := range in.Options {
		m.passed = nil
		found := m.applyRule(o)
		entry := Entry{
			Option: o.Given, Value: maskedValue(o.Name, o.Value, found.verdict != Unknown),
			Verdict: found.verdict, Key: found.key, Note: found.note,
		}
		if unresolved(o.Value) && (found.verdict != Without || m.passed != nil) {
			entry = m.leaveOpen(o, entry)
		}
		r.Options = append(r.Options, entry)
	}
	r.Options = append(r.Options, m.absent()...)
	m.postgres()
	m.kafka()
	r.Options = m.refuseInvalid(r.Options)
	m.differences()
	for _, e := range r.Options {
		r.Counts[e.Verdict]++
	}
	r.Config = m.yaml(r.Options)
	r.Differences = m.diffs
	r.Takeover, r.Rollback, r.SideBySide = m.takeover(), m.rollback(), m.sideBySide()
	return r
}

// leaveOpen handles a placeholder for a value that is elsewhere. A key set to the placeholder itself would be wrong.
func (m *migration) leaveOpen(o Option, e Entry) Entry {
	secret := secretName.MatchString(o.Name)
	if secret || placeholder.MatchString(o.Value) && strings.HasPrefix(o.Name, "database.") {
		e.Note = strings.TrimSpace(e.Note + " " + explain(o.Value))
		return e
	}
	value := o.Value
	if strings.HasSuffix(o.Name, "route.topic.replacement") {
		if value = m.notGroup(value); value == "" {
			return e
		}
	}
	if e.Key != topicsConfig { // which holds the values of other options; topicConfig adds no placeholder
		delete(m.out, e.Key)
	}
	next := "Put it into the configuration by hand."
	if e.Verdict == Without {
		next = "It decides whether there is something to do: " + m.passed.note
	}
	e.Verdict, e.Note = Decide, explain(value)+" "+next
	return e
}

func (m *migration) applyRule(o Option) outcome {
	name, value := o.Name, strings.TrimSpace(o.Value)
	if alias, option, ok := m.transform(name); ok {
		return m.judgeTransform(alias, option, value)
	}
	if found, ok := m.find(storageRules, name, value); ok {
		return found
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
	return outcome{Unknown, "", "This version does not know this option of Debezium or Kafka Connect; find out what " +
		"it does before you switch."}
}

// absent judges the options that are not given and whose defaults matter.
func (m *migration) absent() []Entry {
	var out []Entry
	note := func(name, value string, verdict Verdict, key, why string) {
		out = append(out, Entry{Option: name + " (not given)", Value: value, Verdict: verdict, Key: key, Note: why})
	}
	without := func(name string) bool { return !m.in.has(name) }
	if without("plugin.name") {
		note("plugin.name", "decoderbufs", Refused, "", pluginNote)
	}
	if m.in.has("database.hostname") && without("database.dbname") {
		note("database.dbname", "", Decide, "postgres.dsn", "Debezium needs it. Without it libpq takes the database "+
			"that has the user's name: set it in postgres.dsn or in PGDATABASE.")
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
		note("topic.prefix", "", Decide, "router.debezium.topic_prefix", "It is part of schema names and of a "+
			"header: set "+
			"it to the connector's value.")
	}
	if everyTable(m, "") && without("table.exclude.list") {
		note("table.include.list", "", Decide, "postgres.tables", "Debezium captures every table"+m.ofSchemas()+
			"; name the outbox table in postgres.tables.")
	}
	for _, side := range []string{"value", "key"} {
		if without(side+".converter") && without("debezium.format."+side) {
			key := "router.debezium." + side + "_converter"
			if m.in.Form == DebeziumServer {
				m.out.set(key, "json_with_schema")
				note("debezium.format."+side, "json", Translated, key, "Debezium Server's default, with schema.")
				continue
			}
			note(side+".converter", "", Decide, key, "The Connect worker's setting applies: pass its file with "+
				"--worker, or "+
				"set the key. JsonConverter, common in sample files, is json_with_schema, or json with "+
				"schemas.enable=false.")
		}
	}
	if m.in.Form == DebeziumServer && without("debezium.format.header") {
		const key = "router.debezium.header_converter"
		m.out.set(key, "json_with_schema")
		note("debezium.format.header", "json", Translated, key, "Debezium Server's default, with schema.")
	}
	protocol := strings.ToUpper(m.in.value("producer.override.security.protocol"))
	if strings.HasPrefix(protocol, "SASL_") && without("producer.override.sasl.mechanism") {
		gssapi, _ := m.find(producerRules, "sasl.mechanism", "GSSAPI")
		note("producer.override.sasl.mechanism", "GSSAPI", gssapi.verdict, gssapi.key, "Kafka's default. "+gssapi.note)
	}
	if without("producer.override.bootstrap.servers") {
		note("bootstrap.servers", "", Decide, "kafka.brokers", "The Connect worker's file has the brokers' addresses: "+
			"pass it with --worker, or set the key.")
	}
	return out
}

// differences lists the differences that no option controls.
func (m *migration) differences() {
	if m.out["router.debezium.columns.timestamp"] == nil {
		m.diff("Record timestamps: Debezium sets the time at which it processed the row, this program the time of " +
			"the commit.")
	}
	m.diff("The header __debezium.context.runId is a new UUID at each start, as in Debezium; exclude it from " +
		"comparisons.")
	if !m.in.has("extended.headers.enabled") {
		m.diff("Debezium writes the headers __debezium.context.* from version 3.2 on, and this program writes them " +
			"too. With an older Debezium set router.debezium.context_headers: false, or consumers get new headers.")
	}
	m.diff("NULL in a column with a DEFAULT: Debezium writes the default, for example {} for a NULL payload with " +
		"DEFAULT '{}'. This program writes NULL, and its schemas (json_with_schema) contain no defaults.")
	m.diff("This program does not write Debezium's other topics: heartbeats, transaction metadata, notifications, " +
		"schema changes.")
	m.diff("A row that makes Debezium's task fail (NULL route, an illegal topic) halts this program too, which names " +
		"the row's id and LSN; see router.on_bad_row.")
	if m.in.Form == DebeziumServer {
		m.diff("Debezium Server's Kafka sink ignores the partition and the timestamp that the event router chose. " +
			"These settings are left out, so that records keep their partitions. Its header values are JSON.")
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
