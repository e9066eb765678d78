package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/writers"
)

// match is a table and the column for each role that has one.
type match struct {
	Table
	writer  *writers.Writer   // the library that makes such tables; nil: none that is known
	columns map[string]string // by role, see writers.Match
	member  string            // of a JSON column, the record's key, COLUMN/MEMBER; the role aggregate_id has its name
	score   int
}

// debezium reports whether the table is as Debezium's outbox event router expects it by default.
func (m match) debezium() bool {
	for _, name := range []string{"id", "aggregatetype", "aggregateid", "type", "payload"} {
		if !slices.Contains(m.names(), name) {
			return false
		}
	}
	return true
}

func matchOf(t Table) match {
	m := match{Table: t, writer: writers.Of(t.Name, t.names()), columns: writers.Match(t.Columns)}
	m.score = len(m.columns)
	if m.writer != nil {
		m.score += 20
	}
	if strings.Contains(strings.ToLower(t.Name), "outbox") {
		m.score += 10
	}
	return m
}

// candidates are the tables that look like an outbox, the likeliest first: a library's, or by their name, or by most of
// the columns. A payload is needed in any case.
func (s *Survey) candidates() []match {
	var out []match
	for _, t := range s.Tables {
		m := matchOf(t)
		fits := m.writer != nil || m.columns["payload"] != "" && m.score >= 5
		if fits && !strings.HasPrefix(t.Name, "cdc_outbox_") {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	return out
}
