package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router/debezium"
)

// topicNameMatches is the class of the predicates whose verdict about a table is known here: it compares the whole name
// of the record's topic with a pattern (org.apache.kafka.connect.transforms.predicates.TopicNameMatches).
const topicNameMatches = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"

// recordIsTombstone is the class of the predicate that selects records without a value.
const recordIsTombstone = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"

// notInTopics matches the characters that Debezium replaces in a topic's name (AbstractTopicNamingStrategy).
var notInTopics = regexp.MustCompile(`[^a-zA-Z0-9._-]`)

// selects reports whether the transformation gets the change events of the table, by its predicate and negate. known
// is false if this file does not tell: another class of predicate, a placeholder, or topics that are renamed before.
func (m *migration) selects(alias string, t capturedTable) (selected, known bool) {
	predicate := m.in.value("transforms." + alias + ".predicate")
	if predicate == "" {
		return true, true
	}
	class := m.in.value("predicates." + predicate + ".type")
	if class == recordIsTombstone && m.before(alias) {
		return m.negated(alias), true // an insert is none
	}
	pattern := m.in.value("predicates." + predicate + ".pattern")
	topic, ok := m.changeTopic(t)
	chain := list(m.in.value("transforms"))
	if !ok || class != topicNameMatches || pattern == "" ||
		len(chain) == 0 || chain[0] != alias || unresolved(pattern) ||
		debezium.CheckPattern(pattern) != nil {
		return false, false
	}
	return whole(pattern, topic) != m.negated(alias), true
}

// whole reports whether the pattern of Java matches the whole text.
func whole(pattern, text string) bool {
	const mark = "!" // no name of a topic or schema has it
	return strings.Contains(debezium.Topics(pattern, mark)(text), mark)
}

// before reports whether the transformation gets records before the event router has made events of them.
func (m *migration) before(alias string) bool {
	chain := list(m.in.value("transforms"))
	return slices.Index(chain, alias) <= slices.Index(chain, m.router)
}

// changeTopic is the topic of a table's change events before all transformations.
func (m *migration) changeTopic(t capturedTable) (string, bool) {
	prefix := m.in.value("topic.prefix")
	if prefix == "" {
		prefix = m.in.value("database.server.name")
	}
	delimiter := m.in.value("topic.delimiter")
	if delimiter == "" {
		delimiter = "."
	}
	topic := notInTopics.ReplaceAllString(strings.Join([]string{prefix, t.schema, t.name}, delimiter), "_")
	return topic, prefix != "" && !unresolved(prefix) && !m.in.has("topic.naming.strategy")
}

func (m *migration) negated(alias string) bool {
	return strings.EqualFold(m.in.value("transforms."+alias+".negate"), "true")
}

// selection names the records that a transformation with a predicate gets.
func (m *migration) selection(alias string) string {
	predicate := m.in.value("transforms." + alias + ".predicate")
	selects := "selects"
	if m.negated(alias) {
		selects = "does not select (negate=true)"
	}
	class := m.in.value("predicates." + predicate + ".type")
	if class == "" {
		class = "not defined in this file"
	}
	if pattern := m.in.value("predicates." + predicate + ".pattern"); pattern != "" {
		class += " with pattern " + pattern
	}
	return fmt.Sprintf("the records that the predicate %s %s (it is %s)", predicate, selects, class)
}

// routerPredicate judges the predicate together with the tables that the connector captures.
func routerPredicate(m *migration, _, _ string) outcome {
	const key = "postgres.tables"
	tables, patterns := m.captured()
	known := len(tables) > 0 && len(patterns) == 0
	var unrouted []string
	for _, t := range tables {
		routed, sure := m.selects(m.router, t)
		known = known && (sure || m.foreign(t.schema, t.name))
		if sure && !routed {
			unrouted = append(unrouted, t.String())
		}
	}
	about := "The event router routes " + m.selection(m.router) + "; other records pass unchanged. This program " +
		"routes the tables in postgres.tables and sends nothing else."
	switch {
	case !known:
		return outcome{Decide, key, about + " Keep in postgres.tables only tables whose rows the router routes."}
	case slices.Equal(unrouted, names(tables)):
		return outcome{Refused, key, "The predicate keeps every captured table from the event router: this connector " +
			"does not route an outbox."}
	case len(unrouted) > 0:
		return outcome{Translated, key, about + " Not routed, so not in postgres.tables: " +
			strings.Join(unrouted, ", ") + ". Check that no consumer reads their events."}
	}
	return outcome{Without, "", about}
}

func names(tables []capturedTable) []string {
	all := make([]string, len(tables))
	for i, t := range tables {
		all[i] = t.String()
	}
	return all
}
