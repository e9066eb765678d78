package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/writers"
)

// role is the purpose of an outbox's column, by the key below router.columns.
type role struct {
	key   string
	names []string // the default first, then the names in other libraries

	optional bool // the table need not have it
}

var roles = []role{
	{"id", []string{"id", "event_id", "message_id", "uuid"}, false},
	{"aggregate_type", []string{"aggregate_type", "aggregatetype", "topic", "destination", "stream", "channel"}, false},
	{"aggregate_id", []string{"aggregate_id", "aggregateid", "partition_key", "message_key", "key"}, false},
	{"type", []string{"event_type", "type", "eventtype", "message_type", "name"}, false},
	{"payload", []string{"payload", "data", "body", "message", "content", "value"}, false},
	{"headers", []string{"headers", "metadata", "attributes"}, true},
	{"timestamp", []string{"created_at", "createdat", "occurred_at", "created", "inserted_at", "timestamp"}, true},
}

// match is a table and the column for each role that has one.
type match struct {
	Table
	writer  *writers.Writer   // the library that makes such tables; nil: none that is known
	columns map[string]string // by role
	score   int
}

// debezium reports whether the table is as Debezium's outbox event router expects it by default.
func (m match) debezium() bool {
	for _, name := range []string{"id", "aggregatetype", "aggregateid", "type", "payload"} {
		if !slices.Contains(m.Columns, name) {
			return false
		}
	}
	return true
}

func matchOf(t Table) match {
	m := match{Table: t, writer: writers.Of(t.Name, t.Columns), columns: map[string]string{}}
	if m.writer != nil {
		m.score += 20
	}
	for _, r := range roles {
		for _, name := range r.names {
			at := slices.IndexFunc(t.Columns, func(c string) bool { return strings.EqualFold(c, name) })
			if at >= 0 {
				m.columns[r.key] = t.Columns[at]
				m.score++
				break
			}
		}
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
