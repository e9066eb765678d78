package migrate

import "strings"

const (
	pluginNote    = "The slot is decoded by decoderbufs, Debezium's default, and this program reads pgoutput: it cannot be taken over. Make a slot of our own side by side (see the steps), and switch by comparing."
	allTablesNote = "The publication may be FOR ALL TABLES: rows of other tables are then decoded, sent and ignored here, too. A publication of only the outbox table costs Postgres less."
	onlyInserts   = "Only inserts are events, here as in the event router."
	noSnapshot    = "There is no snapshot when the slot is taken over: it starts where Debezium's confirmed position is."
	noSignals     = "There are no signals and no incremental snapshots. If the table is in the publication its rows are ignored."
	noSchema      = "It shapes change events; the event router takes them apart."
	batching      = "Batches, queues and waits are this program's own matter; window.records and window.bytes bound the memory."
	retries       = "Connections are tried again for as long as it takes."
	internals     = "A matter of Debezium's own insides."
)

// rules judges the connector's options: those of Debezium's PostgresConnectorConfig, RelationalDatabaseConnectorConfig,
// CommonConnectorConfig and what they take in, and Kafka Connect's own. A test holds it against their list of names.
var rules = map[string]rule{
	// Kafka Connect's options of any source connector.
	"name":                     without("The connector's name; the slot's name identifies this program's work."),
	"connector.class":          class,
	"tasks.max":                without("One slot has one reader."),
	"tasks.max.enforce":        without("One slot has one reader."),
	"connector.plugin.version": without("There are no plugins."),
	"config.action.reload":     without("Secrets in files are read anew at each connection; other changes want a restart."),
	"errors.tolerance": func(_ *migration, value string) outcome {
		if strings.EqualFold(value, "all") {
			return outcome{Decide, "router.on_bad_row", "Connect skips rows that fail, without a word. Here they halt the stream unless router.on_bad_row says otherwise: skip is the same, counted and logged; dead_letter keeps them."}
		}
		return outcome{Translated, "router.on_bad_row", "halt, the default: the stream stops in front of a row that fails."}
	},
	"errors.retry.timeout":        without(retries),
	"errors.retry.delay.max.ms":   without(retries),
	"errors.log.enable":           without("Every row that cannot be published is logged, without its payload."),
	"errors.log.include.messages": without("Payloads are never logged."),
	"exactly.once.support": func(m *migration, value string) outcome {
		if strings.EqualFold(value, "required") {
			m.out.set("delivery", "exactly_once")
			return outcome{Translated, "delivery", "Kafka transactions; consumers need isolation.level=read_committed, as before."}
		}
		return outcome{Decide, "delivery", "The worker decides whether transactions are used. If it had exactly.once.source.support=enabled, set delivery: exactly_once."}
	},
	"transaction.boundary":             without("With delivery: exactly_once a Kafka transaction ends where a Postgres transaction does, or several do."),
	"transaction.boundary.interval.ms": without("With delivery: exactly_once a Kafka transaction ends where a Postgres transaction does, or several do."),
	"offsets.storage.topic":            without("The position is the slot's; with delivery: exactly_once it is in a consumer group's offsets. Keep the topic for the way back."),
	"key.converter":                    converter("key"),
	"value.converter":                  converter("value"),
	"header.converter":                 headerConverter,
	"converters":                       decide("Custom converters change how columns are represented. Find out whether they touch columns of the outbox table."),
	"transforms":                       chain,
	"predicates":                       without("See the transformation that names them."),
	"topic.creation.groups":            topicGroups,

	// Postgres: connection. postgres.go makes one connection string of these.
	"database.hostname":                 connection,
	"database.port":                     connection,
	"database.user":                     connection,
	"database.dbname":                   connection,
	"database.password":                 password,
	"database.sslmode":                  connection,
	"database.sslrootcert":              connection,
	"database.sslcert":                  connection,
	"database.sslkey":                   sslKey,
	"database.sslpassword":              decide("A key with a passphrase: put sslpassword into the connection string, and that into a file."),
	"database.sslfactory":               decide("A Java class chooses the certificates; say the same with sslmode, sslrootcert, sslcert and sslkey in postgres.dsn."),
	"database.initial.statements":       decide("Statements are run on no connection here. What sets a parameter can be in the connection string (options=-c …) or ALTER ROLE … SET."),
	"database.tcpKeepAlive":             without("TCP keep-alive is on."),
	"database.query.timeout.ms":         without("A matter of Debezium's queries."),
	"database.connection.timeout.ms":    without("connect_timeout in the connection string does it where it is wanted."),
	"database.connection.factory.class": decide("A Java class makes the connections; say in postgres.dsn what it does."),
	"database.server.name":              to("router.debezium.topic_prefix"),
	"read.only":                         only("false", noSignals, outcome{Decide, "", "On a read-only server (a standby, PostgreSQL 16 or later) publication and slot have to be made by hand; set postgres.setup: never."}),
	"connection.validation.timeout.ms":  without(retries),

	// Postgres: replication.
	"plugin.name": func(_ *migration, value string) outcome {
		if strings.EqualFold(value, "pgoutput") {
			return outcome{Without, "", "The slot's plugin is pgoutput, which is read here too: the slot can be taken over."}
		}
		return outcome{Refused, "", strings.Replace(pluginNote, "decoderbufs, Debezium's default,", value, 1)}
	},
	"slot.name": func(m *migration, value string) outcome {
		m.slot = value
		return outcome{Translated, "postgres.slot", "The same slot goes on."}
	},
	"publication.name": func(m *migration, value string) outcome {
		m.pub = value
		return outcome{Translated, "postgres.publication", "The same publication goes on."}
	},
	"slot.drop.on.stop": func(_ *migration, value string) outcome {
		if strings.EqualFold(value, "true") {
			return outcome{Decide, "", "Stopping the connector drops the slot, and what is committed before ours starts is LOST. Set it to false and let the connector restart before you stop it."}
		}
		return outcome{Without, "", "This program never drops a slot."}
	},
	"slot.failover": func(m *migration, value string) outcome {
		m.out.set("postgres.failover", strings.EqualFold(value, "true"))
		return outcome{Translated, "postgres.failover", ""}
	},
	"slot.stream.params": func(_ *migration, value string) outcome {
		if value == "" {
			return outcome{Without, "", "Empty."}
		}
		return outcome{Decide, "", "Parameters of the decoder are not passed on. Of pgoutput's, origin=none would change which rows come."}
	},
	"slot.max.retries":                   without(retries),
	"slot.retry.delay.ms":                without(retries),
	"slot.seek.to.known.offset.on.start": without("The slot's own position decides, Debezium's offsets are not read."),
	"offset.mismatch.strategy":           without("The slot's own position decides, Debezium's offsets are not read. For the way back, trust_slot is the setting to have."),
	"create.slot.command.timeout":        without("The slot is there."),
	"publication.autocreate.mode": func(_ *migration, value string) outcome {
		switch strings.ToLower(value) {
		case "disabled", "filtered":
			return outcome{Without, "", "The publication is there and is used as it is."}
		case "no_tables":
			return outcome{Decide, "", "Check that the publication holds the outbox table."}
		}
		return outcome{Without, "", allTablesNote}
	},
	"publish.via.partition.root": func(_ *migration, value string) outcome {
		if strings.EqualFold(value, "true") {
			return outcome{Without, "", "The publication has it, and stays. Name partitioned tables by their root in postgres.tables."}
		}
		return outcome{Without, "", "If the outbox table is partitioned, ALTER PUBLICATION … SET (publish_via_partition_root = true) first: rows come under their partition's name otherwise."}
	},
	"replica.identity.autoset.values": without(onlyInserts + " Inserts need no replica identity."),
	"flush.lsn.source":                flushMode,
	"lsn.flush.mode":                  flushMode,
	"lsn.flush.timeout.ms":            without("The confirmed position goes with every status message."),
	"lsn.flush.timeout.action":        without("The confirmed position goes with every status message."),
	"status.update.interval.ms":       without("Status messages follow wal_sender_timeout and progress."),
	"xmin.fetch.interval.ms":          without(internals),
	"schema.refresh.mode":             without("Postgres announces each table's columns before its rows."),
	"message.prefix.include.list":     messages,
	"message.prefix.exclude.list":     messages,

	// Snapshot.
	"snapshot.mode": func(_ *migration, value string) outcome {
		switch strings.ToLower(value) {
		case "no_data", "never", "initial", "when_needed", "exported":
			return outcome{Without, "", noSnapshot}
		case "always":
			return outcome{Decide, "", "Debezium sends the whole table again at each start; nothing here does. If consumers rely on it, publish rows again from the table (docs/runbook.md)."}
		case "initial_only":
			return outcome{Refused, "", "The connector only takes a snapshot and ends; there is nothing to take over."}
		}
		return outcome{Decide, "", "Find out what the snapshotter does at a start. " + noSnapshot}
	},
	"snapshot.mode.custom.name":                                  without(noSnapshot),
	"snapshot.mode.configuration.based.snapshot.data":            without(noSnapshot),
	"snapshot.mode.configuration.based.snapshot.schema":          without(noSnapshot),
	"snapshot.mode.configuration.based.start.stream":             only("true", noSnapshot, outcome{Refused, "", "The connector does not stream; there is nothing to take over."}),
	"snapshot.mode.configuration.based.snapshot.on.schema.error": without(noSnapshot),
	"snapshot.mode.configuration.based.snapshot.on.data.error":   without(noSnapshot),
	"snapshot.isolation.mode":                                    without(noSnapshot),
	"snapshot.locking.mode":                                      without(noSnapshot),
	"snapshot.locking.mode.custom.name":                          without(noSnapshot),
	"snapshot.query.mode":                                        without(noSnapshot),
	"snapshot.query.mode.custom.name":                            without(noSnapshot),
	"snapshot.include.collection.list":                           without(noSnapshot),
	"snapshot.select.statement.overrides":                        without(noSnapshot),
	"snapshot.delay.ms":                                          without(noSnapshot),
	"snapshot.fetch.size":                                        without(noSnapshot),
	"snapshot.max.threads":                                       without(noSnapshot),
	"snapshot.max.threads.multiplier":                            without(noSnapshot),
	"legacy.snapshot.max.threads":                                without(noSnapshot),
	"internal.legacy.snapshot.max.threads":                       without(noSnapshot),
	"snapshot.lock.timeout.ms":                                   without(noSnapshot),
	"snapshot.tables.order.by.row.count":                         without(noSnapshot),
	"snapshot.scan.all.columns.force":                            without(noSnapshot),
	"incremental.snapshot.chunk.size":                            without(noSignals),
	"incremental.snapshot.allow.schema.changes":                  without(noSignals),
	"incremental.snapshot.watermarking.strategy":                 without(noSignals),
	"streaming.delay.ms":                                         without("The stream begins at once."),

	// What is captured.
	"table.include.list":    tableList,
	"table.whitelist":       tableList,
	"table.exclude.list":    decide("Tables are named one by one here: list the outbox tables in postgres.tables."),
	"schema.include.list":   decide("Tables are named with their schema here: check that postgres.tables lists what is in those schemas."),
	"schema.exclude.list":   decide("Tables are named with their schema here: check that postgres.tables lists none of those schemas."),
	"database.include.list": without("A Postgres connector has one database."),
	"database.exclude.list": without("A Postgres connector has one database."),
	"table.ignore.builtin":  without("Only the tables in postgres.tables are read."),
	"column.include.list":   columnList,
	"column.exclude.list":   columnList,
	"message.key.columns":   without("The event router makes the key of its own column."),
	"skipped.operations": func(_ *migration, value string) outcome {
		for _, op := range list(value) {
			if strings.EqualFold(op, "c") {
				return outcome{Refused, "", "The connector skips inserts, which are the events."}
			}
		}
		return outcome{Without, "", onlyInserts + " Updates and deletes are passed over; a TRUNCATE too, of which Debezium's task would die with skipped.operations=none."}
	},
	"skip.messages.without.change": without(onlyInserts),
	"tombstones.on.delete":         without(onlyInserts + " The event router drops deletes and their tombstones."),

	// How columns are represented.
	"decimal.handling.mode":                  oneOf("router.debezium.decimal_handling", "precise", "double", "string"),
	"time.precision.mode":                    oneOf("router.debezium.time_precision", "adaptive", "adaptive_time_microseconds", "connect", "microseconds", "nanoseconds", "isostring"),
	"binary.handling.mode":                   oneOf("router.debezium.binary_handling", "bytes", "base64", "base64-url-safe", "hex"),
	"hstore.handling.mode":                   oneOf("router.debezium.hstore_handling", "json", "map"),
	"interval.handling.mode":                 oneOf("router.debezium.interval_handling", "numeric", "string"),
	"money.fraction.digits":                  only("2", "The default.", outcome{Decide, "", "money columns are written with two digits here; it matters only if one becomes a key, header or envelope field."}),
	"include.unknown.datatypes":              only("false", "Columns of types that Debezium does not know are left out there.", outcome{Decide, "", "Check key, headers and envelope fields for columns of extension types: their bytes may differ."}),
	"unavailable.value.placeholder":          without(onlyInserts + " An insert has all its values."),
	"column.propagate.source.type":           schemaParameters,
	"datatype.propagate.source.type":         schemaParameters,
	"schema.name.adjustment.mode":            schemaNames,
	"field.name.adjustment.mode":             schemaNames,
	"event.converting.failure.handling.mode": only("fail|warn", "A value that cannot be represented makes a bad row; see router.on_bad_row.", outcome{Decide, "router.on_bad_row", "Debezium leaves such values out; here the row is a bad row."}),
	"event.processing.failure.handling.mode": only("fail", "A row that cannot become a record halts; see router.on_bad_row.", outcome{Decide, "router.on_bad_row", "Debezium passes over events that it fails on; here router.on_bad_row decides: halt, dead_letter or skip."}),
	"post.processors":                        decide("Post processors change events before the event router sees them. Find out whether they touch the outbox table."),
	"sourceinfo.struct.maker":                without(noSchema),
	"extended.headers.enabled":               yes("router.debezium.context_headers"),

	// Topics.
	"topic.prefix":                 to("router.debezium.topic_prefix"),
	"topic.naming.strategy":        without("The event router names the topics; the strategy names those it replaces."),
	"topic.delimiter":              without("The event router names the topics."),
	"topic.cache.size":             without(internals),
	"topic.transaction":            without("Transaction metadata is not written."),
	"topic.heartbeat.name":         heartbeat,
	"topic.heartbeat.prefix":       heartbeat,
	"heartbeat.topics.prefix":      heartbeat,
	"heartbeat.interval.ms":        heartbeat,
	"heartbeat.action.query":       heartbeat,
	"provide.transaction.metadata": only("false", "The default.", outcome{Decide, "", "Debezium writes transactions' begin and end to a topic of its own, and nothing does so here. See whether anybody reads it."}),
	"transaction.metadata.factory": without("Transaction metadata is not written."),
	"include.schema.changes":       without(noSchema),
	"include.schema.comments":      without(noSchema),

	// Signals, notifications, metrics, lineage.
	"signal.data.collection":          without(noSignals),
	"signal.enabled.channels":         without(noSignals),
	"signal.poll.interval.ms":         without(noSignals),
	"signal.emit.failure.max.retries": without(noSignals),
	"signal.emit.failure.backoff.ms":  without(noSignals),
	"notification.enabled.channels":   notifications,
	"notification.sink.topic.name":    notifications,
	"custom.metric.tags":              without("Metrics are Prometheus' here; see docs/monitor.md for their names."),
	"advanced.metrics.enable":         without("Metrics are Prometheus' here; see docs/monitor.md for their names."),
	"statistics.metrics.enabled":      without("Metrics are Prometheus' here; see docs/monitor.md for their names."),
	"custom.sanitize.pattern":         without("Payloads and passwords are never logged."),

	// Batches, retries, insides.
	"max.batch.size":                      without(batching),
	"max.queue.size":                      without(batching),
	"max.queue.size.in.bytes":             without(batching),
	"poll.interval.ms":                    without(batching),
	"poll.dispatch.interval.ms":           without(batching),
	"queue.provider.type":                 without(batching),
	"query.fetch.size":                    without(batching),
	"errors.max.retries":                  without(retries),
	"retriable.restart.connector.wait.ms": without(retries),
	"custom.retriable.exception":          without(retries),
	"executor.shutdown.timeout.ms":        without(internals),
	"log.position.check.enable":           without("A slot that is lost is noticed, and never made anew silently."),
	"offset.activity.monitor.interval.ms": without(internals),
	"multi.partition.mode":                without(internals),
	"guardrail.collections.max":           without("Only the tables in postgres.tables are read."),
	"guardrail.collections.limit.action":  without("Only the tables in postgres.tables are read."),
}

func class(_ *migration, value string) outcome {
	if value == "io.debezium.connector.postgresql.PostgresConnector" || value == "PostgresConnector" || value == "Postgres" || value == "PostgresConnectorV2" {
		return outcome{Without, "", "Debezium's PostgreSQL connector, which this program replaces."}
	}
	return outcome{Refused, "", "This is not Debezium's PostgreSQL connector; only PostgreSQL is read here."}
}

func flushMode(_ *migration, value string) outcome {
	switch strings.ToLower(value) {
	case "manual", "false":
		return outcome{Decide, "", "Debezium does not move the slot; somebody else does. Here the slot moves over what Kafka has acknowledged: stop the other, and look at confirmed_flush_lsn first, for all behind it is sent again."}
	}
	return outcome{Without, "", "The slot moves over what Kafka has acknowledged, and over a quiet database without heartbeats."}
}

func messages(_ *migration, value string) outcome {
	if value == "" {
		return outcome{Without, "", "Empty."}
	}
	return outcome{Decide, "postgres.messages", "The event router passes messages of pg_logical_emit_message on to <topic.prefix>.message unchanged. Nothing does so here; postgres.messages takes them as events, which is something else."}
}

func columnList(_ *migration, value string) outcome {
	if value == "" {
		return outcome{Without, "", "Empty."}
	}
	return outcome{Decide, "", "Only columns with a role, or placed as header, envelope or partition, are used here. Check that none of those is among the columns that Debezium was told to leave out."}
}

func heartbeat(_ *migration, value string) outcome {
	if value == "" || value == "0" {
		return outcome{Without, "", "Empty."}
	}
	return outcome{Without, "", "No heartbeats are needed: keepalives move the slot while the outbox is idle. Rows of a heartbeat table in the publication are ignored; whatever else watches that table or topic has to know."}
}

func notifications(_ *migration, value string) outcome {
	if value == "" {
		return outcome{Without, "", "Empty."}
	}
	return outcome{Decide, "", "No notifications are sent. See who reads them; /status, the metrics and the log are what there is here."}
}

func schemaParameters(_ *migration, value string) outcome {
	if value == "" {
		return outcome{Without, "", "Empty."}
	}
	return outcome{Decide, "", "It adds parameters to schemas, which show only in a converter with schema (json_with_schema). Leave it out there first, or bear the difference."}
}

func schemaNames(_ *migration, value string) outcome {
	if value == "" || strings.EqualFold(value, "none") {
		return outcome{Without, "", "The default."}
	}
	return outcome{Decide, "", "It changes names in schemas, which show only in a converter with schema (json_with_schema), and names of members when payloads are expanded. Compare side by side."}
}

// prefixRules judges families of options; the first prefix that fits counts.
var prefixRules = []struct {
	prefix string
	rule   func(m *migration, rest, value string) outcome
}{
	{"producer.override.", producerOverride},
	{"topic.creation.", topicCreation},
	{"key.converter.", converterOption},
	{"value.converter.", converterOption},
	{"header.converter.", converterOption},
	{"predicates.", func(*migration, string, string) outcome {
		return outcome{Without, "", "See the transformation that names the predicate."}
	}},
	{"snapshot.select.statement.overrides.", func(*migration, string, string) outcome { return outcome{Without, "", noSnapshot} }},
	{"snapshot.max.threads.multiplier.", func(*migration, string, string) outcome { return outcome{Without, "", noSnapshot} }},
	{"signal.", func(*migration, string, string) outcome { return outcome{Without, "", noSignals} }},
	{"openlineage.", func(*migration, string, string) outcome {
		return outcome{Without, "", "No lineage is reported."}
	}},
	{"memory.management.", func(*migration, string, string) outcome { return outcome{Without, "", internals} }},
	{"schema.history.", func(*migration, string, string) outcome {
		return outcome{Without, "", "A Postgres connector keeps no schema history."}
	}},
	{"column.mask.", masked},
	{"column.truncate.", masked},
	{"driver.", func(*migration, string, string) outcome {
		return outcome{Decide, "postgres.dsn", "A parameter of the JDBC driver; see whether the connection string needs its like."}
	}},
	{"database.", func(*migration, string, string) outcome {
		return outcome{Decide, "postgres.dsn", "A parameter of the JDBC driver; see whether the connection string needs its like."}
	}},
	{"consumer.override.", func(*migration, string, string) outcome {
		return outcome{Without, "", "A source connector's is not used."}
	}},
	{"admin.override.", func(*migration, string, string) outcome {
		return outcome{Without, "", "Topics are created, where that is configured, over the same connections as all else."}
	}},
	{"errors.deadletterqueue.", func(*migration, string, string) outcome {
		return outcome{Without, "", "Connect has dead letters only for sinks. Here there is router.on_bad_row: dead_letter."}
	}},
	{"worker.", worker},
	{"debezium.", serverOption},
	{"quarkus.", func(*migration, string, string) outcome {
		return outcome{Without, "", "Debezium Server's HTTP server and logging; here they are http.listen and log."}
	}},
}

func masked(*migration, string, string) outcome {
	return outcome{Refused, "", "Columns are masked or cut before they are sent, and nothing does so here. If it touches the outbox table, mask when the event is written."}
}
