package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router/debezium"
)

const eventRouter = "io.debezium.transforms.outbox.EventRouter"

// findRouter returns the alias of the event router in the chain, empty for none.
func (m *migration) findRouter() string {
	for _, alias := range list(m.in.value("transforms")) {
		if m.in.value("transforms."+alias+".type") == eventRouter {
			return alias
		}
	}
	return ""
}

// transform splits transforms.ALIAS.OPTION; an alias may hold dots.
func (m *migration) transform(name string) (alias, option string, ok bool) {
	rest, ok := strings.CutPrefix(name, "transforms.")
	if !ok {
		return "", "", false
	}
	for _, a := range list(m.in.value("transforms")) {
		if o, ok := strings.CutPrefix(rest, a+"."); ok {
			return a, o, true
		}
	}
	alias, option, _ = strings.Cut(rest, ".")
	return alias, option, true
}

func chain(m *migration, _, value string) outcome {
	if m.router == "" {
		return outcome{Refused, "", "The chain does not contain " + eventRouter + ": this connector does not route " +
			"an outbox."}
	}
	for _, alias := range list(value) {
		if !m.in.has("transforms." + alias + ".type") {
			return outcome{Decide, "", "The chain has the transformation " + alias + ", and the file has no type of " +
				"it: find out what it does."}
		}
	}
	return outcome{Translated, "router.preset", "debezium"}
}

func (m *migration) judgeTransform(alias, option, value string) outcome {
	switch {
	case !slices.Contains(list(m.in.value("transforms")), alias):
		return outcome{Without, "", "The transformation is not in the chain."}
	case alias != m.router:
		if option == "type" {
			return m.otherTransform(alias, value)
		}
		return outcome{Without, "", "See transforms." + alias + ".type."}
	}
	if found, ok := m.find(routerRules, option, value); ok {
		return found
	}
	return outcome{Unknown, "", "The event router of Debezium 3.7 does not have this option; find out what it does " +
		"before you switch."}
}

// otherTransform judges the rest of the chain.
func (m *migration) otherTransform(alias, class string) outcome {
	if m.in.value("transforms."+alias+".predicate") == "" {
		found, _ := m.find(transformRules, class, class)
		return found
	}
	tables, patterns := m.captured()
	never := len(tables) > 0 && len(patterns) == 0
	for _, t := range tables {
		selected, known := m.selects(alias, t)
		routed, sure := m.selects(m.router, t)
		never = never && (known && !selected || sure && !routed || m.foreign(t.schema, t.name))
	}
	if never {
		return outcome{Without, "", "It works on " + m.selection(alias) + ", and so on no row of the outbox."}
	}
	return outcome{Decide, "", "It works on " + m.selection(alias) + ". If no row of the outbox table is among them, " +
		"there is nothing to do; otherwise check how the transformation changes the row."}
}

// additional keeps the entries, except the entries that Debezium Server ignores.
func additional(m *migration, _, value string) outcome {
	const key = "router.debezium.additional"
	var kept []string
	dropped := false
	for _, entry := range list(value) {
		parts := strings.Split(entry, ":")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if len(parts) < 2 || len(parts) > 3 {
			return outcome{Refused, key, "An entry is column:placement or column:placement:alias; Debezium refuses " +
				"this too."}
		}
		parts[1] = strings.ToLower(parts[1]) // Debezium takes any case
		switch parts[1] {
		case "header", "envelope":
		case "partition":
			if m.in.Form == DebeziumServer {
				dropped = true
				continue
			}
		default:
			return outcome{Refused, key, fmt.Sprintf("The placement %q does not exist; Debezium's task fails on it "+
				"at the "+
				"first row.", parts[1])}
		}
		kept = append(kept, strings.Join(parts, ":"))
	}
	m.out.set(key, kept)
	if dropped {
		return outcome{Translated, key, "Without the placement partition, which Debezium Server's Kafka sink " +
			"ignores: records stay in the same partitions."}
	}
	return outcome{Translated, key, ""}
}

func topicRegex(m *migration, _, value string) outcome {
	const key = "router.debezium.topic_regex"
	if err := debezium.CheckPattern(value); err != nil {
		return outcome{Refused, key, "Go's regular expressions cannot give the same result: " + err.Error() +
			". Write an expression without this construct that matches the same route values."}
	}
	m.out.set(key, value)
	return outcome{Translated, key, "Go's regular expressions match this the same way."}
}

var namedGroup = regexp.MustCompile(`\(\?<([A-Za-z][A-Za-z0-9]*)>`)

// notGroup returns the first placeholder of the replacement that is not a group of the router's expression, like
// ${routedByValue}; empty if all are. Connect takes only names with a provider for placeholders: there ${name} is a
// group for Debezium even if the expression has none of the name, and this program refuses it at the start.
func (m *migration) notGroup(replacement string) string {
	expression := m.in.value("transforms." + m.router + ".route.topic.regex")
	if expression == "" {
		expression = "(?<routedByValue>.*)"
	}
	groups := map[string]bool{}
	for _, found := range namedGroup.FindAllStringSubmatch(expression, -1) {
		groups["${"+found[1]+"}"] = true
	}
	for _, found := range placeholder.FindAllString(replacement, -1) {
		if !groups[found] && (m.in.Form == DebeziumServer || strings.Contains(found, ":")) {
			return found
		}
	}
	return ""
}
