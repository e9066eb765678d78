package migrate

// routerRules judges the event router's options.
var routerRules = []rule{
	{options: "type", verdict: Translated, key: "router.preset", note: "debezium"},
	{options: "predicate", judge: routerPredicate},
	{options: "negate", verdict: Without, note: "See predicate."},
	{
		options: "table.op.invalid.behavior", when: is("warn", "error"), verdict: Translated, key: "postgres.on_change",
		note: "As in Debezium, an UPDATE of an outbox row is logged and is not an event.",
		set:  constant("warn"),
	},
	{
		options: "table.op.invalid.behavior", when: is("fatal"), verdict: Translated, key: "postgres.on_change",
		note: "Debezium's task fails at an UPDATE; this process stays up, not ready, and publishes nothing after " +
			"it. A TRUNCATE halts the stream too.",
		set: constant("halt"),
	},
	{options: "table.op.invalid.behavior", verdict: Refused, note: "Debezium refuses this value too."},
	{options: "table.field.event.id", verdict: Translated, key: "router.debezium.columns.id", set: text},
	{options: "table.field.event.key", verdict: Translated, key: "router.debezium.columns.key", set: text},
	{options: "table.field.event.type", verdict: Translated, key: "router.debezium.columns.type", set: text},
	{options: "table.field.event.payload", verdict: Translated, key: "router.debezium.columns.payload", set: text},
	{
		options: "table.field.event.timestamp", when: onServer, verdict: Without,
		note: "Left out, because Debezium Server's Kafka sink ignores it. Set router.debezium.columns.timestamp to " +
			"use it from now on.",
	},
	{options: "table.field.event.timestamp", verdict: Translated, key: "router.debezium.columns.timestamp", set: text},
	{
		options: "table.field.event.schema.version", verdict: Translated, key: "router.debezium.columns.schema_version",
		set: text,
	},
	{options: "table.fields.additional.placement", judge: additional},
	{
		options: "table.field.additional.missing", words: "error ignore", verdict: Translated,
		key: "router.debezium.additional_missing", set: text,
	},
	{options: "table.expand.json.payload", verdict: Translated, key: "router.debezium.expand_json", set: truth},
	{
		options: "table.json.payload.null.behavior", words: "ignore optional_bytes", verdict: Translated,
		key: "router.debezium.expand_json_null", set: text,
	},
	{
		options: "table.json.payload.empty.array.behavior", words: "ignore optional_string", verdict: Translated,
		key: "router.debezium.expand_json_empty_array", set: text,
	},
	{options: "route.by.field", verdict: Translated, key: "router.debezium.columns.route", set: text},
	{options: "route.topic.regex", judge: topicRegex},
	{options: "route.topic.replacement", verdict: Translated, key: "router.debezium.topic_replacement", set: text},
	{
		options: "route.tombstone.on.empty.payload", verdict: Translated,
		key: "router.debezium.tombstone_on_empty_payload", set: truth,
	},
	{
		options: "tracing.span.context.field", verdict: Decide, key: "router.debezium.columns.tracing",
		note: "Debezium reads the column only if OpenTelemetry is on its class path. If your records carry " +
			"traceparent now, set router.debezium.columns.tracing: {value}. Debezium inserts its own spans; this " +
			"program passes the application's context on.",
		set: func(m *migration, key, _ string) {
			m.notes[key] = "only if the headers (traceparent) are in your records now"
		},
	},
	{
		options: "tracing.operation.name tracing.with.context.field.only", verdict: Without,
		note: "This program passes on what the application wrote, and inserts no spans.",
	},
	{options: "field.name.adjustment.mode", when: is("", "none"), verdict: Without, note: "The default."},
	{options: "field.name.adjustment.mode", verdict: Decide, note: schemaNames},
}

// transformRules judges, by their classes, the other transformations of the chain.
var transformRules = []rule{
	{
		options: "org.apache.kafka.connect.transforms.RegexRouter io.debezium.transforms.ByLogicalTableRouter",
		verdict: Decide, key: "router.debezium.topic_replacement",
		note: "It renames topics. After the event router: put the final names into router.debezium.topic_regex and " +
			"topic_replacement. Before the event router: it has no effect on events.",
	},
	{
		options: "org.apache.kafka.connect.transforms.InsertHeader", verdict: Decide,
		note: "It adds a fixed header, which the preset debezium cannot. Let the application write the value into a " +
			"column and place the column as header, or change the consumers so that they do not need it.",
	},
	{
		options: "io.debezium.transforms.ExtractNewRecordState", verdict: Refused,
		note: "It takes change events apart. The event router needs them whole, or has already taken them apart; the " +
			"combined result is unknown.",
	},
	{
		options: "io.debezium.transforms.Filter", verdict: Refused,
		note: "It filters events with a script; this program does not. Do not write such rows, or filter in the " +
			"consumers.",
	},
	{options: "*", verdict: Refused, note: "This program does no other transformation, so records that it changes " +
		"would differ."},
}
