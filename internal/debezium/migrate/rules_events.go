package migrate

const noSchema = "It changes the form of change events, which the event router takes apart."

// captureRules judges which tables, columns and operations become events.
var captureRules = []rule{
	{
		options: "table.whitelist", when: replacedBy("table.include.list"), verdict: Without,
		note: "The old name of table.include.list, which is given too.",
	},
	{options: "table.include.list table.whitelist", judge: tableList},
	{
		options: "table.exclude.list", verdict: Decide, key: "postgres.tables",
		note: "This program needs the names of the tables: list the outbox tables in postgres.tables.",
	},
	{
		options: "schema.include.list", when: holdsTables, verdict: Without,
		note: "The tables of table.include.list are in these schemas.",
	},
	{
		options: "schema.include.list", when: everyTable, verdict: Without,
		note: "postgres.tables names tables with their schema; see table.include.list (not given).",
	},
	{
		options: "schema.include.list", verdict: Decide,
		note: "postgres.tables names tables with their schema: check that it lists the outbox tables of these schemas.",
	},
	{
		options: "schema.exclude.list", verdict: Decide,
		note: "postgres.tables names tables with their schema: check that it lists no table of these schemas.",
	},
	{
		options: "database.include.list database.exclude.list", verdict: Without,
		note: "A Postgres connector has one database.",
	},
	{options: "table.ignore.builtin", verdict: Without, note: "Only the tables in postgres.tables are read."},
	{options: "column.include.list column.exclude.list", when: is(""), verdict: Without, note: "Empty."},
	{
		options: "column.include.list column.exclude.list", verdict: Decide,
		note: "This program uses only columns with a role and columns placed as header, envelope or partition. " +
			"Check that Debezium does not leave out any of these columns.",
	},
	{options: "message.key.columns", verdict: Without, note: "The event router takes the key from its own column."},
	{
		options: "skipped.operations", when: skipsInserts, verdict: Refused,
		note: "The connector skips inserts, which are the events.",
	},
	{
		options: "skipped.operations", verdict: Without,
		note: onlyInserts + " This program ignores updates, deletes and TRUNCATE. A TRUNCATE ends " +
			"Debezium's task with skipped.operations=none.",
	},
	{options: "skip.messages.without.change", verdict: Without, note: onlyInserts},
	{
		options: "tombstones.on.delete", verdict: Without,
		note: onlyInserts + " The event router drops deletes and their tombstones.",
	},
}

// columnRules judges how columns are represented.
var columnRules = []rule{
	{
		options: "decimal.handling.mode", words: "precise double string", verdict: Translated,
		key: "router.debezium.decimal_handling", set: text,
	},
	{
		options: "time.precision.mode",
		words:   "adaptive adaptive_time_microseconds connect microseconds nanoseconds isostring", verdict: Translated,
		key: "router.debezium.time_precision", set: text,
	},
	{
		options: "binary.handling.mode", words: "bytes base64 base64-url-safe hex", verdict: Translated,
		key: "router.debezium.binary_handling", set: text,
	},
	{
		options: "hstore.handling.mode", words: "json map", verdict: Translated, key: "router.debezium.hstore_handling",
		set: text,
	},
	{
		options: "interval.handling.mode", words: "numeric string", verdict: Translated,
		key: "router.debezium.interval_handling", set: text,
	},
	{options: "money.fraction.digits", when: is("2"), verdict: Without, note: "The default."},
	{
		options: "money.fraction.digits", verdict: Decide,
		note: "This program writes money columns with two digits. It matters only if such a column becomes a key, " +
			"header or envelope field.",
	},
	{
		options: "include.unknown.datatypes", when: is("false"), verdict: Without,
		note: "Debezium leaves out columns of unknown types.",
	},
	{
		options: "include.unknown.datatypes", verdict: Decide,
		note: "Check key, headers and envelope fields for columns of extension types: their bytes may differ.",
	},
	{options: "unavailable.value.placeholder", verdict: Without, note: onlyInserts + " An insert carries all its " +
		"values."},
	{
		options: "column.propagate.source.type datatype.propagate.source.type", when: is(""), verdict: Without,
		note: "Empty.",
	},
	{
		options: "column.propagate.source.type datatype.propagate.source.type", verdict: Decide,
		note: "It adds parameters to schemas, visible only in a converter with schema (json_with_schema). Remove the " +
			"option from Debezium first, or accept the difference.",
	},
	{
		options: "schema.name.adjustment.mode field.name.adjustment.mode", when: is("", "none"), verdict: Without,
		note: "The default.",
	},
	{options: "schema.name.adjustment.mode field.name.adjustment.mode", verdict: Decide, note: schemaNames},
	{
		options: "event.converting.failure.handling.mode", when: is("fail", "warn"), verdict: Without,
		note: "A row with a value that cannot be represented is a bad row; see router.on_bad_row.",
	},
	{
		options: "event.converting.failure.handling.mode", verdict: Decide, key: "router.on_bad_row",
		note: "Debezium leaves such values out; in this program the row is a bad row.",
	},
	{
		options: "event.processing.failure.handling.mode", when: is("fail"), verdict: Without,
		note: "A row that cannot become a record halts the stream; see router.on_bad_row.",
	},
	{
		options: "event.processing.failure.handling.mode", verdict: Decide, key: "router.on_bad_row",
		note: "Debezium skips events that it cannot process; in this program router.on_bad_row decides: halt, " +
			"dead_letter or skip.",
	},
	{
		options: "post.processors", verdict: Decide,
		note: "Post processors change events before the event router sees them. Find out whether they touch the " +
			"outbox table.",
	},
	{
		options: "sourceinfo.struct.maker include.schema.changes include.schema.comments",
		verdict: Without, note: noSchema,
	},
	{options: "extended.headers.enabled", verdict: Translated, key: "router.debezium.context_headers", set: truth},
}

const schemaNames = "It changes names in schemas, visible only in a converter with schema (json_with_schema), and " +
	"member names of expanded payloads. Compare side by side."

// topicRules judges the connector's own topics. Events go to other topics.
var topicRules = []rule{
	{
		options: "database.server.name", when: replacedBy("topic.prefix"), verdict: Without,
		note: "The old name of topic.prefix, which is given too.",
	},
	{options: "topic.prefix database.server.name", verdict: Translated, key: "router.debezium.topic_prefix", set: text},
	{
		options: "topic.naming.strategy", verdict: Without,
		note: "The event router names the topics; it replaces the names that the strategy makes.",
	},
	{options: "topic.delimiter", verdict: Without, note: "The event router names the topics."},
	{options: "topic.cache.size", verdict: Without, note: internals},
	{
		options: `topic.heartbeat.name topic.heartbeat.prefix heartbeat.topics.prefix heartbeat.interval.ms
			heartbeat.action.query`,
		when: is("", "0"), verdict: Without,
		note: "Empty.",
	},
	{
		options: `topic.heartbeat.name topic.heartbeat.prefix heartbeat.topics.prefix heartbeat.interval.ms
			heartbeat.action.query`,
		verdict: Without,
		note: "No heartbeats are needed: keepalives advance the slot while the outbox is idle. This program ignores " +
			"the rows of a heartbeat table in the publication. Check whether another process watches this table or " +
			"topic.",
	},
	{options: "provide.transaction.metadata", when: is("false"), verdict: Without, note: "The default."},
	{
		options: "provide.transaction.metadata", verdict: Decide,
		note: "Debezium writes the begin and end of transactions to a separate topic; this program does not. Check " +
			"whether a consumer reads this topic.",
	},
	{
		options: "topic.transaction transaction.metadata.factory", verdict: Without,
		note: "Transaction metadata is not written.",
	},
}
