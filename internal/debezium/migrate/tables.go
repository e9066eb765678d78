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

// unquotedName matches a name that postgres.tables takes without quotes. Debezium does not distinguish upper case here,
// so a name in upper case stays as it is.
var unquotedName = regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_$]*$`)

func asName(name string) string {
	if unquotedName.MatchString(name) {
		return name
	}
	return identifier.Quote(name)
}

func tableList(m *migration, _, value string) outcome {
	const key = "postgres.tables"
	var tables, patterns, left []string
	for _, entry := range list(value) {
		entry = strings.TrimSuffix(strings.TrimPrefix(entry, "^"), "$")
		names := plainTable.FindStringSubmatch(entry)
		switch {
		case names == nil:
			patterns = append(patterns, entry)
		case m.foreign(names[1], names[2]):
			left = append(left, names[1]+"."+names[2])
		default:
			tables = append(tables, asName(names[1])+"."+asName(names[2]))
		}
	}
	if len(patterns) > 0 {
		return outcome{Decide, key, "A pattern: list the tables that it matches (SELECT * FROM pg_publication_tables " +
			"shows the tables of the publication). Name a partitioned table by its root."}
	}
	if len(tables) == 0 {
		return outcome{Decide, key, "No table remains; name the outbox table."}
	}
	if !slices.Equal(tables, []string{"public.outbox"}) {
		m.out.set(key, tables)
	}
	note := ""
	if len(tables) > 1 {
		note = "Several tables: like the event router, this program treats each of them as an outbox."
	}
	if len(left) > 0 {
		note = strings.TrimSpace(note + " Left out, because it is for heartbeats or signals: " +
			strings.Join(left, ", ") + ".")
	}
	return outcome{Translated, key, note}
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
