package migrate

import (
	"fmt"
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

func chain(m *migration, value string) outcome {
	switch {
	case m.router == "":
		return outcome{Refused, "", "There is no " + eventRouter + " in the chain: this connector does not route an outbox."}
	case len(list(value)) > 1:
		return outcome{Decide, "", "There are other transformations beside the event router; see each of them."}
	}
	return outcome{Translated, "router.preset", "debezium"}
}

func (m *migration) judgeTransform(alias, option, value string) outcome {
	listed := false
	for _, a := range list(m.in.value("transforms")) {
		listed = listed || a == alias
	}
	switch {
	case !listed:
		return outcome{Without, "", "The transformation is not in the chain."}
	case alias != m.router:
		if option == "type" {
			return m.otherTransform(alias, value)
		}
		return outcome{Without, "", "See transforms." + alias + ".type."}
	}
	if f, ok := routerRules[option]; ok {
		return f(m, value)
	}
	return outcome{Unknown, "", "The event router of Debezium 3.7 has no such option; find out what it does before you switch."}
}

// otherTransform judges the rest of the chain.
func (m *migration) otherTransform(alias, class string) outcome {
	if p := m.in.value("transforms." + alias + ".predicate"); p != "" {
		return outcome{Decide, "", fmt.Sprintf("It works on what the predicate %s picks. If that is never a row of the outbox table, it is without meaning here; else see what it does to it.", p)}
	}
	switch class {
	case "org.apache.kafka.connect.transforms.RegexRouter", "io.debezium.transforms.ByLogicalTableRouter":
		return outcome{Decide, "router.debezium.topic_replacement", "It renames topics. Behind the event router, put the final names into router.debezium.topic_regex and topic_replacement; in front of it, it has no effect on events."}
	case "org.apache.kafka.connect.transforms.InsertHeader":
		return outcome{Decide, "", "It adds a fixed header. The preset debezium has none: let the application write it into a column and place that as header, or let consumers do without."}
	case "io.debezium.transforms.ExtractNewRecordState":
		return outcome{Refused, "", "It takes change events apart that the event router needs whole (or has already taken apart); what comes out together cannot be said."}
	case "io.debezium.transforms.Filter":
		return outcome{Refused, "", "It leaves out events by a script. Nothing here does: do not write such rows, or filter in the consumers."}
	}
	return outcome{Refused, "", "No other transformation is done here, so records it changes would differ."}
}

// routerRules judges the event router's options.
var routerRules = map[string]rule{
	"type": func(*migration, string) outcome { return outcome{Translated, "router.preset", "debezium"} },
	"predicate": func(m *migration, value string) outcome {
		return outcome{Decide, "", fmt.Sprintf("Only records that the predicate %s picks are routed, others pass unchanged. Here the tables in postgres.tables are routed and nothing else is sent. If the predicate only keeps heartbeats and the like away, there is nothing to do. It is %s.", value, m.predicate(value))}
	},
	"negate":                    without("See predicate."),
	"table.op.invalid.behavior": onUpdate,
	"table.field.event.id":      to("router.debezium.columns.id"),
	"table.field.event.key":     to("router.debezium.columns.key"),
	"table.field.event.type":    to("router.debezium.columns.type"),
	"table.field.event.payload": to("router.debezium.columns.payload"),
	"table.field.event.timestamp": func(m *migration, value string) outcome {
		if m.in.Form == DebeziumServer {
			return outcome{Without, "", "Debezium Server's Kafka sink ignores it; left out. Set router.debezium.columns.timestamp to have it from now on."}
		}
		return to("router.debezium.columns.timestamp")(m, value)
	},
	"table.field.event.schema.version":        to("router.debezium.columns.schema_version"),
	"table.fields.additional.placement":       additional,
	"table.field.additional.missing":          oneOf("router.debezium.additional_missing", "error", "ignore"),
	"table.expand.json.payload":               yes("router.debezium.expand_json"),
	"table.json.payload.null.behavior":        oneOf("router.debezium.expand_json_null", "ignore", "optional_bytes"),
	"table.json.payload.empty.array.behavior": oneOf("router.debezium.expand_json_empty_array", "ignore", "optional_string"),
	"route.by.field":                          to("router.debezium.columns.route"),
	"route.topic.regex":                       topicRegex,
	"route.topic.replacement":                 to("router.debezium.topic_replacement"),
	"route.tombstone.on.empty.payload":        yes("router.debezium.tombstone_on_empty_payload"),
	"tracing.span.context.field":              tracing,
	"tracing.operation.name":                  without("No spans are made; what the application wrote travels on."),
	"tracing.with.context.field.only":         without("No spans are made; what the application wrote travels on."),
	"field.name.adjustment.mode":              schemaNames,
}

func (m *migration) predicate(alias string) string {
	class := m.in.value("predicates." + alias + ".type")
	if class == "" {
		return "not defined in this file"
	}
	if pattern := m.in.value("predicates." + alias + ".pattern"); pattern != "" {
		return class + " with pattern " + pattern
	}
	return class
}

func onUpdate(m *migration, value string) outcome {
	const key = "postgres.on_change"
	switch strings.ToLower(value) {
	case "warn", "error":
		m.out.set(key, "warn")
		return outcome{Translated, key, "An UPDATE of an outbox row is no event and only goes to the log, here as there."}
	case "fatal":
		m.out.set(key, "halt")
		return outcome{Translated, key, "Debezium's task fails at an UPDATE; here the process stays, not ready, and publishes nothing after it. A TRUNCATE halts as well."}
	}
	return outcome{Refused, "", "Debezium itself refuses this value."}
}

// additional keeps the entries as they are, but for what Debezium Server does not do.
func additional(m *migration, value string) outcome {
	const key = "router.debezium.additional"
	var kept []string
	dropped := false
	for _, entry := range list(value) {
		parts := strings.Split(entry, ":")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if len(parts) < 2 || len(parts) > 3 {
			return outcome{Refused, key, "An entry is column:placement or column:placement:alias; Debezium itself refuses this."}
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
			return outcome{Refused, key, fmt.Sprintf("There is no placement %q; Debezium's task dies of it at the first row.", parts[1])}
		}
		kept = append(kept, strings.Join(parts, ":"))
	}
	m.out.set(key, kept)
	if dropped {
		return outcome{Translated, key, "Without the placement partition, which Debezium Server's Kafka sink ignores: records stay in the partitions they were in."}
	}
	return outcome{Translated, key, ""}
}

func tracing(m *migration, value string) outcome {
	m.notes["router.debezium.columns.tracing"] = "only if the headers (traceparent) are in your records now"
	return outcome{Decide, "router.debezium.columns.tracing", "Debezium reads the column only where OpenTelemetry is on its class path. If your records carry traceparent now, set router.debezium.columns.tracing: " + value + "; Debezium puts spans of its own in between, here the application's travel on."}
}

func topicRegex(m *migration, value string) outcome {
	const key = "router.debezium.topic_regex"
	if err := debezium.CheckPattern(value); err != nil {
		return outcome{Refused, key, "Go's regular expressions cannot do it the same way: " + err.Error() + ". Write one that matches the same route values without it."}
	}
	m.out.set(key, value)
	return outcome{Translated, key, "Go's regular expressions match this the same way."}
}
