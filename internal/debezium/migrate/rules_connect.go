package migrate

import "slices"

const (
	batching = "This program chooses batches, queues and waits itself; window.records and window.bytes limit its " +
		"memory."
	retries   = "This program reconnects until it succeeds."
	internals = "Internal to Debezium."
	metrics   = "This program exports Prometheus metrics; docs/monitor.md lists their names."
)

// connectorRules judges the connector's options: the options of Debezium's PostgresConnectorConfig,
// RelationalDatabaseConnectorConfig, CommonConnectorConfig and the options that they include, and Kafka Connect's own.
// A test compares them with a list of all names.
var connectorRules = slices.Concat(connectRules, connectionRules, replicationRules, snapshotRules, captureRules,
	columnRules, topicRules, processRules)

// connectRules judges Kafka Connect's own options of any source connector.
var connectRules = []rule{
	{options: "name", verdict: Without, note: "The connector's name; the slot's name identifies this program's work."},
	{
		options: "connector.class",
		when: exactly("io.debezium.connector.postgresql.PostgresConnector",
			"PostgresConnector", "Postgres", "PostgresConnectorV2"),
		verdict: Without,
		note:    "This program replaces Debezium's PostgreSQL connector.",
	},
	{
		options: "connector.class", verdict: Refused,
		note: "This is not Debezium's PostgreSQL connector; this program reads only PostgreSQL.",
	},
	{options: "tasks.max tasks.max.enforce", verdict: Without, note: "One slot has one reader."},
	{options: "connector.plugin.version", verdict: Without, note: "There are no plugins."},
	{
		options: "config.action.reload", verdict: Without,
		note: "Secrets in files are read again at each connection; other changes need a restart.",
	},
	{
		options: "errors.tolerance", when: is("all"), verdict: Decide, key: "router.on_bad_row",
		note: "Connect skips failing rows silently. Here a failing row halts the stream unless router.on_bad_row is " +
			"set: skip does the same as Connect, but counts and logs the row; dead_letter keeps it.",
	},
	{
		options: "errors.tolerance", verdict: Translated, key: "router.on_bad_row",
		note: "halt, the default: the stream stops before a row that fails.",
	},
	{options: "errors.retry.timeout errors.retry.delay.max.ms", verdict: Without, note: retries},
	{
		options: "errors.log.enable", verdict: Without,
		note: "Every row that cannot be published is logged, without its payload.",
	},
	{options: "errors.log.include.messages", verdict: Without, note: "Payloads are never logged."},
	{
		options: "exactly.once.support", when: is("required"), verdict: Translated, key: "delivery",
		note: "This program uses Kafka transactions; consumers need isolation.level=read_committed, as before.",
		set:  constant("exactly_once"),
	},
	{
		options: "exactly.once.support", verdict: Decide, key: "delivery",
		note: "The worker decides whether transactions are used. If it had exactly.once.source.support=enabled, set " +
			"delivery: exactly_once.",
	},
	{
		options: "transaction.boundary transaction.boundary.interval.ms", verdict: Without,
		note: "With delivery: exactly_once a Kafka transaction contains one or more complete Postgres transactions.",
	},
	{
		options: "offsets.storage.topic", verdict: Without,
		note: "The slot holds the position; with delivery: exactly_once a consumer group's offsets hold it. Keep the " +
			"topic for a rollback.",
	},
	{options: "key.converter", judge: converter("key")},
	{options: "value.converter", judge: converter("value")},
	{options: "header.converter", judge: headerConverter},
	{
		options: "converters", verdict: Decide,
		note: "Custom converters change how columns are represented. Find out whether they touch columns of the " +
			"outbox table.",
	},
	{options: "transforms", judge: chain},
	{options: "predicates", verdict: Without, note: "See the transformations that name them."},
	{options: "topic.creation.groups", when: is("", "default"), verdict: Without, note: "The group default."},
	{
		options: "topic.creation.groups", verdict: Decide, key: "kafka.topics.rules",
		note: "Settings for groups of topics, by regular expression; kafka.topics.rules uses patterns with * and ?.",
	},
}

// storageRules judges the converters of Connect's own topics; without internal. these names are other options.
var storageRules = []rule{{
	options: "internal.key.converter internal.key.converter.* internal.value.converter internal.value.converter.*",
	verdict: Without, note: "It concerns the topics in which Connect keeps its own state.",
}}

// processRules judges the options of Debezium's process: signals, notifications, metrics, batches, retries.
var processRules = []rule{
	{
		options: `signal.data.collection signal.enabled.channels signal.poll.interval.ms signal.emit.failure.max.retries
			signal.emit.failure.backoff.ms`,
		verdict: Without,
		note:    noSignals,
	},
	{
		options: "notification.enabled.channels notification.sink.topic.name", when: is(""), verdict: Without,
		note: "Empty.",
	},
	{
		options: "notification.enabled.channels notification.sink.topic.name", verdict: Decide,
		note: "This program sends no notifications. Find out who reads them; use /status, the metrics or the log " +
			"instead.",
	},
	{options: "custom.metric.tags advanced.metrics.enable statistics.metrics.enabled", verdict: Without, note: metrics},
	{options: "custom.sanitize.pattern", verdict: Without, note: "Payloads and passwords are never logged."},
	{
		options: `max.batch.size max.queue.size max.queue.size.in.bytes poll.interval.ms poll.dispatch.interval.ms
			queue.provider.type query.fetch.size`,
		verdict: Without,
		note:    batching,
	},
	{
		options: "errors.max.retries retriable.restart.connector.wait.ms custom.retriable.exception", verdict: Without,
		note: retries,
	},
	{
		options: "executor.shutdown.timeout.ms offset.activity.monitor.interval.ms multi.partition.mode",
		verdict: Without,
		note:    internals,
	},
	{
		options: "log.position.check.enable", verdict: Without,
		note: "This program detects a lost slot and never re-creates it silently.",
	},
	{
		options: "guardrail.collections.max guardrail.collections.limit.action", verdict: Without,
		note: "Only the tables in postgres.tables are read.",
	},
	{
		options: `offset.storage offset.storage.file.filename offset.flush.interval.ms offset.flush.timeout.ms
			offset.storage.topic offset.storage.partitions offset.storage.replication.factor offset.commit.policy`,
		verdict: Without,
		note:    "The slot holds the position. Keep the file or topic for a rollback.",
	},
}

// families judges the options whose names share a prefix.
var families = slices.Concat(
	under("producer.override.", producerRules),
	under("key.converter.", converterRules),
	under("value.converter.", converterRules),
	under("header.converter.", converterRules),
	familyRules,
)

var familyRules = []rule{
	{
		options: unused + "*", verdict: Without,
		note: "Connect does not read it: it takes a converter's options from where the converter's class is, and " +
			"this file leaves the class to the worker.",
	},
	{options: "topic.creation.enable", verdict: Without, note: "A worker's option."},
	{options: "topic.creation.default.partitions", judge: topicNumber("kafka.topics.partitions")},
	{options: "topic.creation.default.replication.factor", judge: topicNumber("kafka.topics.replication_factor")},
	{
		options: "topic.creation.default.include topic.creation.default.exclude", verdict: Without,
		note: "The group default has none.",
	},
	{options: "topic.creation.default topic.creation.default.*", judge: topicConfig},
	{options: "topic.creation.*", judge: topicGroup},
	{options: "predicates.*", verdict: Without, note: "See the transformation that names the predicate."},
	{
		options: "snapshot.select.statement.overrides.* snapshot.max.threads.multiplier.*", verdict: Without,
		note: noSnapshot,
	},
	{options: "signal.*", verdict: Without, note: noSignals},
	{options: "openlineage.*", verdict: Without, note: "No lineage is reported."},
	{options: "memory.management.*", verdict: Without, note: internals},
	{
		options: "schema.history.* database.history database.history.*", verdict: Without,
		note: "A Postgres connector keeps no schema history.",
	},
	{
		options: "bootstrap.servers security.protocol sasl.* ssl.*", when: onServer, verdict: Without,
		note: "Debezium Server keeps its offsets in Kafka by it; this program reads and keeps none there.",
	},
	{
		options: `acks batch.size bootstrap.servers buffer.memory client.dns.lookup client.id compression.type
			connections.max.idle.ms delivery.timeout.ms enable.idempotence linger.ms max.block.ms
			max.in.flight.requests.per.connection max.request.size metadata.max.age.ms partitioner.class
			reconnect.backoff.ms reconnect.backoff.max.ms request.timeout.ms retries retry.backoff.ms
			retry.backoff.max.ms sasl.* security.protocol ssl.* transaction.timeout.ms transactional.id`,
		verdict: Without,
		note: "An option of Kafka's clients. In a connector's configuration only the prefix producer.override. hands " +
			"one to the producer, so this one has had no effect.",
	},
	{
		options: "column.mask.* column.truncate.*", verdict: Refused,
		note: "Debezium masks or truncates columns before it sends them; this program does not. If the option " +
			"covers the outbox table, mask the value when the event is written.",
	},
	{
		options: "driver.* database.*", verdict: Decide, key: "postgres.dsn",
		note: "A parameter of the JDBC driver; check whether the connection string needs an equivalent.",
	},
	{options: "consumer.override.*", verdict: Without, note: "A source connector does not use it."},
	{
		options: "admin.override.*", verdict: Without,
		note: "This program creates topics, where configured, over its normal connections.",
	},
	{
		options: "errors.deadletterqueue.*", verdict: Without,
		note: "Connect writes dead letters only for sinks. Here router.on_bad_row: dead_letter writes them.",
	},
	{
		options: "worker.config.providers*", verdict: Without,
		note: "Secrets are read from files (@path) or environment variables.",
	},
	{options: "worker.exactly.once.source.support", verdict: Without, note: "See exactly.once.support of the " +
		"connector."},
	{options: "worker.*", verdict: Without, note: "It configures the Connect worker; this program has no worker."},
	{options: "debezium.api.* debezium.redis.* debezium.health*", verdict: Without, note: "It configures Debezium " +
		"Server itself."},
	{
		options: "debezium.sink.*", verdict: Decide,
		note: "An option of the sink; check whether it changes what is written, or where.",
	},
	{options: "debezium.*", verdict: Unknown, note: "This version does not know this option of Debezium Server."},
	{
		options: "quarkus.*", verdict: Without,
		note: "Debezium Server's HTTP server and logging; the equivalents are http.listen and log.",
	},
}
