package migrate

import (
	"regexp"
	"slices"
	"strings"
)

// plainTable is a table's name as a regular expression that matches nothing else; Debezium's entries are expressions,
// mostly such ones.
var plainTable = regexp.MustCompile(`^[A-Za-z0-9_$]+(\\?\.|\[\.\])[A-Za-z0-9_$]+$`)

func tableList(m *migration, _, value string) outcome {
	const key = "postgres.tables"
	var tables, patterns []string
	for _, entry := range list(value) {
		entry = strings.TrimSuffix(strings.TrimPrefix(entry, "^"), "$")
		table := strings.NewReplacer(`\.`, ".", "[.]", ".").Replace(entry)
		switch {
		case !plainTable.MatchString(entry):
			patterns = append(patterns, entry)
		case m.foreign(table):
		default:
			tables = append(tables, table)
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
	if len(tables) > 1 {
		return outcome{Decide, key, "Several tables: the event router treats every captured table as an outbox. " +
			"List only the outbox tables in " + key + "; until now the rows of the other tables made records, or " +
			"errors."}
	}
	return outcome{Translated, key, ""}
}

// foreign reports whether the table is for signals or heartbeats.
func (m *migration) foreign(table string) bool {
	signal := m.in.value("signal.data.collection")
	if table == signal || strings.HasSuffix(signal, "."+table) {
		return true
	}
	query := m.in.value("heartbeat.action.query")
	_, name, _ := strings.Cut(table, ".")
	word := regexp.MustCompile(`(?i)(^|[^A-Za-z0-9_$])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9_$])`)
	return query != "" && word.MatchString(query)
}

func skipsInserts(_ *migration, value string) bool {
	return slices.ContainsFunc(list(value), func(op string) bool { return strings.EqualFold(op, "c") })
}

// onServer reports whether the file is Debezium Server's.
func onServer(m *migration, _ string) bool { return m.in.Form == DebeziumServer }
