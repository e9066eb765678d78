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

// unquotedName is what postgres.tables takes without quotes. Debezium does not distinguish upper case here, so a name
// in upper case stays as it is.
var unquotedName = regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_$]*$`)

func asName(name string) string {
	if unquotedName.MatchString(name) {
		return name
	}
	return identifier.Quote(name)
}

func tableList(m *migration, _, value string) outcome {
	const key = "postgres.tables"
	var tables, patterns []string
	for _, entry := range list(value) {
		entry = strings.TrimSuffix(strings.TrimPrefix(entry, "^"), "$")
		names := plainTable.FindStringSubmatch(entry)
		switch {
		case names == nil:
			patterns = append(patterns, entry)
		case m.foreign(names[1] + "." + names[2]):
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
	if len(tables) > 1 {
		return outcome{Translated, key, "Several tables: like the event router, this program treats each of them as " +
			"an outbox."}
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
