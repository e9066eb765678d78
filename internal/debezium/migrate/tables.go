package migrate

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// plainTable is a table's name as a regular expression that matches nothing else; Debezium's entries are expressions,
// mostly such ones.
var plainTable = regexp.MustCompile(`^([\p{L}\p{N}_$ -]+)(?:\\?\.|\[\.\])([\p{L}\p{N}_$ -]+)$`)

// foldedName matches a name that SQL leaves as it is without quotes.
var foldedName = regexp.MustCompile(`^[\p{Ll}\p{Lo}_][\p{Ll}\p{Lo}\p{N}_$]*$`)

// asName writes a name of Debezium's, whose case counts, for postgres.tables, which folds as SQL does. The schema
// public in another case is that schema: Debezium's expressions match without regard to case.
func asName(name string) string {
	if strings.EqualFold(name, "public") {
		return "public"
	}
	if foldedName.MatchString(name) {
		return name
	}
	return identifier.Quote(name)
}

// capturedTable is an entry of the include list.
type capturedTable struct{ schema, name string }

func (t capturedTable) String() string { return t.schema + "." + t.name }

// captured reads the include list: the tables in it, and the entries that are patterns.
func (m *migration) captured() (tables []capturedTable, patterns []string) {
	value := m.in.value("table.include.list")
	if value == "" {
		value = m.in.value("table.whitelist")
	}
	for _, entry := range list(value) {
		entry = strings.TrimSuffix(strings.TrimPrefix(entry, "^"), "$")
		if names := plainTable.FindStringSubmatch(entry); names != nil {
			tables = append(tables, capturedTable{names[1], names[2]})
		} else {
			patterns = append(patterns, entry)
		}
	}
	return tables, patterns
}

func tableList(m *migration, _, _ string) outcome {
	const key = "postgres.tables"
	captured, patterns := m.captured()
	if len(patterns) > 0 {
		return outcome{Decide, key, "A pattern: list the tables that it matches (SELECT * FROM pg_publication_tables " +
			"shows the tables of the publication). Name a partitioned table by its root."}
	}
	var tables, left, unrouted []string
	upper := false
	for _, t := range captured {
		routed, known := m.selects(m.router, t)
		switch {
		case m.foreign(t.schema, t.name):
			left = append(left, t.String())
		case known && !routed:
			unrouted = append(unrouted, t.String())
		default:
			tables = append(tables, asName(t.schema)+"."+asName(t.name))
			upper = upper || strings.ToLower(t.String()) != t.String()
		}
	}
	if open := m.perhapsForeign(captured, left); open != "" && len(tables) > 0 {
		m.out.set(key, tables)
		return outcome{Decide, key, "By its name " + open + " is for heartbeats or signals, and no option of the " +
			"connector writes it. Leave it out of postgres.tables, unless its rows are events."}
	}
	if len(tables) == 0 {
		return outcome{Decide, key, "No table remains; name the outbox table."}
	}
	if !slices.Equal(tables, []string{"public.outbox"}) {
		m.out.set(key, tables)
	}
	var notes []string
	if len(tables) > 1 {
		notes = append(notes, "Several tables: like the event router, this program treats each of them as an outbox.")
	}
	if upper {
		notes = append(notes, "Debezium ignores the case of these names, this program does not: if Postgres lists the "+
			"table in lower case, write it in lower case.")
	}
	if len(left) > 0 {
		notes = append(notes, "Left out, because it is for heartbeats or signals: "+strings.Join(left, ", ")+".")
	}
	if len(unrouted) > 0 {
		notes = append(notes, "Left out, because the event router's predicate passes its rows by: "+
			strings.Join(unrouted, ", ")+".")
	}
	return outcome{Translated, key, strings.Join(notes, " ")}
}

// perhapsForeign is a table beside others that is an outbox or for heartbeats, empty for none.
func (m *migration) perhapsForeign(captured []capturedTable, left []string) string {
	if len(captured) == 1 || m.in.value("transforms."+m.router+".predicate") != "" {
		return "" // a predicate is a decision of its own
	}
	for _, t := range captured {
		if looksForeign(t.name) && !slices.Contains(left, t.String()) {
			return t.String()
		}
	}
	return ""
}

// holdsTables reports whether the list of schemas, which are regular expressions to Debezium, has the schema of each
// table that is captured.
func holdsTables(m *migration, value string) bool {
	captured, patterns := m.captured()
	if len(captured) == 0 || len(patterns) > 0 {
		return false
	}
	schemas := list(value)
	for _, t := range captured {
		if !slices.ContainsFunc(schemas, func(schema string) bool {
			return strings.EqualFold(schema, t.schema) || whole(schema, t.schema)
		}) {
			return false
		}
	}
	return true
}

// everyTable reports whether the connector names no tables.
func everyTable(m *migration, _ string) bool {
	return !m.in.has("table.include.list") && !m.in.has("table.whitelist")
}

// ofSchemas limits a sentence about every table to the schemas that the connector captures.
func (m *migration) ofSchemas() string {
	if schemas := m.in.value("schema.include.list"); schemas != "" {
		return " of the schemas " + schemas
	}
	return ""
}

// looksForeign reports whether the table has heartbeats or signals by its name alone.
func looksForeign(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "")
	return strings.Contains(name, "heartbeat") || strings.Contains(name, "debeziumsignal")
}

// foreign reports whether the table is for signals or heartbeats. Only the table that the heartbeat's statement writes
// or reads counts: its other words may be the names of outbox tables too.
func (m *migration) foreign(schema, name string) bool {
	table, signal := schema+"."+name, m.in.value("signal.data.collection")
	if table == signal || strings.HasSuffix(signal, "."+table) {
		return true
	}
	quoted := func(s string) string { return `"?` + regexp.QuoteMeta(s) + `"?` }
	named := regexp.MustCompile(`(?i)(?:^|\W)(?:into|update|only|from)\s+(?:` + quoted(schema) + `\s*\.\s*)?` +
		quoted(name) + `(?:\s*$|\s+[^.\s]|[^\pL\pN_$."\s])`)
	return named.MatchString(m.in.value("heartbeat.action.query"))
}

func skipsInserts(_ *migration, value string) bool {
	return slices.ContainsFunc(list(value), func(op string) bool { return strings.EqualFold(op, "c") })
}

// onServer reports whether the file is Debezium Server's.
func onServer(m *migration, _ string) bool { return m.in.Form == DebeziumServer }
