package migrate

const (
	pluginNote = "The slot uses the plugin decoderbufs, Debezium's default. This program reads pgoutput and cannot " +
		"take the slot over. " + ownSlot
	ownSlot       = "Create a second slot side by side (see the steps), compare, then switch."
	allTablesNote = "The publication may be FOR ALL TABLES: Postgres then decodes and sends the rows of other tables " +
		"too, and this program ignores them. A publication of only the outbox table costs Postgres less."
	onlyInserts = "Only inserts are events, as in the event router."
	noSnapshot  = "No snapshot is taken when the slot is taken over: this program starts at Debezium's confirmed " +
		"position."
	noSignals = "This program has no signals and no incremental snapshots. It ignores the rows of a signal table " +
		"in the publication."
)

// connectionRules judges the options of connections to Postgres. postgres.go builds one connection string from them.
var connectionRules = []rule{
	{
		options: `database.hostname database.port database.user database.dbname database.sslmode database.sslrootcert
			database.sslcert`,
		verdict: Translated, key: "postgres.dsn",
	},
	{options: "database.password", judge: password},
	{
		options: "database.sslkey", when: endsIn(".pk8", ".der"), verdict: Decide, key: "postgres.dsn",
		note: "pgjdbc's key is DER; this program needs PEM: openssl pkcs8 -nocrypt -inform DER -in {value} -out " +
			"client.key, and name that file.",
	},
	{options: "database.sslkey", verdict: Translated, key: "postgres.dsn", note: "The file must be PEM."},
	{
		options: "database.sslpassword", verdict: Decide,
		note: "A key with a passphrase: add sslpassword to the connection string, and keep the connection string in " +
			"a file.",
	},
	{
		options: "database.sslfactory", verdict: Decide,
		note: "A Java class chooses the certificates; set sslmode, sslrootcert, sslcert and sslkey in postgres.dsn " +
			"to the same effect.",
	},
	{
		options: "database.initial.statements", verdict: Decide,
		note: "This program runs no statements on its connections. Set parameters in the connection string " +
			"(options=-c …) or with ALTER ROLE … SET.",
	},
	{options: "database.tcpKeepAlive", verdict: Without, note: "TCP keep-alive is on."},
	{options: "database.query.timeout.ms", verdict: Without, note: "It concerns Debezium's own queries."},
	{
		options: "database.connection.timeout.ms", verdict: Without,
		note: "Set connect_timeout in the connection string if you need it.",
	},
	{
		options: "database.connection.factory.class", verdict: Decide,
		note: "A Java class makes the connections; configure the same in postgres.dsn.",
	},
	{options: "read.only", when: is("false"), verdict: Without, note: noSignals},
	{
		options: "read.only", verdict: Decide,
		note: "On a read-only server (a hot standby, PostgreSQL 16 or later) create publication and slot by hand, " +
			"and set postgres.setup: never.",
	},
	{options: "connection.validation.timeout.ms", verdict: Without, note: retries},
}

// replicationRules judges the options of slot, publication and stream.
var replicationRules = []rule{
	{
		options: "plugin.name", when: is("pgoutput"), verdict: Without,
		note: "The slot uses the plugin pgoutput, which this program reads too: it can take the slot over.",
	},
	{
		options: "plugin.name", verdict: Refused,
		note: "The slot uses the plugin {value}. This program reads pgoutput and cannot take the slot over. " + ownSlot,
	},
	{
		options: "slot.name", verdict: Translated, key: "postgres.slot",
		note: "The same slot stays in use.",
		set:  func(m *migration, _, value string) { m.slot = value },
	},
	{
		options: "publication.name", verdict: Translated, key: "postgres.publication",
		note: "The same publication stays in use.",
		set:  func(m *migration, _, value string) { m.pub = value },
	},
	{
		options: "slot.drop.on.stop", when: is("true"), verdict: Decide,
		note: "Stopping the connector drops the slot, and events committed before this program starts are LOST. Set " +
			"it to false and restart the connector before you stop it.",
	},
	{options: "slot.drop.on.stop", verdict: Without, note: "This program never drops a slot."},
	{options: "slot.failover", verdict: Translated, key: "postgres.failover", set: truth},
	{options: "slot.stream.params", when: is(""), verdict: Without, note: "Empty."},
	{
		options: "slot.stream.params", verdict: Decide,
		note: "This program does not pass on decoder parameters. Of the parameters of pgoutput, origin=none would " +
			"change which rows arrive.",
	},
	{options: "slot.max.retries slot.retry.delay.ms", verdict: Without, note: retries},
	{
		options: "slot.seek.to.known.offset.on.start", verdict: Without,
		note: "The slot's position decides; Debezium's offsets are not read.",
	},
	{
		options: "offset.mismatch.strategy", verdict: Without,
		note: "The slot's position decides; Debezium's offsets are not read. For a rollback, set trust_slot.",
	},
	{options: "create.slot.command.timeout", verdict: Without, note: "The slot exists already."},
	{
		options: "publication.autocreate.mode", when: is("disabled", "filtered"), verdict: Without,
		note: "The publication exists and is used unchanged.",
	},
	{
		options: "publication.autocreate.mode", when: is("no_tables"), verdict: Decide,
		note: "Check that the publication contains the outbox table.",
	},
	{options: "publication.autocreate.mode", verdict: Without, note: allTablesNote},
	{
		options: "publish.via.partition.root", when: is("true"), verdict: Without,
		note: "The publication has this setting and stays. Name partitioned tables by their root in postgres.tables.",
	},
	{
		options: "publish.via.partition.root", verdict: Without,
		note: "If the outbox table is partitioned, run ALTER PUBLICATION … SET (publish_via_partition_root = true) " +
			"first: otherwise rows arrive under the name of their partition.",
	},
	{
		options: "replica.identity.autoset.values", verdict: Without,
		note: onlyInserts + " Inserts need no replica identity.",
	},
	{
		options: "flush.lsn.source lsn.flush.mode", when: is("manual", "false"), verdict: Decide,
		note: "Debezium does not advance the slot; another process does. This program advances it to what Kafka has " +
			"acknowledged. Stop the other process and check confirmed_flush_lsn first: everything after it is sent " +
			"again.",
	},
	{
		options: "flush.lsn.source lsn.flush.mode", verdict: Without,
		note: "The slot advances to what Kafka has acknowledged, and also while the database is idle, without " +
			"heartbeats.",
	},
	{
		options: "lsn.flush.timeout.ms lsn.flush.timeout.action", verdict: Without,
		note: "Every standby status update carries the confirmed position.",
	},
	{
		options: "status.update.interval.ms", verdict: Without,
		note: "Standby status updates follow wal_sender_timeout and progress.",
	},
	{options: "xmin.fetch.interval.ms", verdict: Without, note: internals},
	{options: "schema.refresh.mode", verdict: Without, note: "Postgres announces each table's columns before its " +
		"rows."},
	{
		options: "message.prefix.include.list message.prefix.exclude.list", when: is(""),
		verdict: Without, note: "Empty.",
	},
	{
		options: "message.prefix.include.list message.prefix.exclude.list", verdict: Decide, key: "postgres.messages",
		note: "The event router passes messages of pg_logical_emit_message on to <topic.prefix>.message unchanged. " +
			"This program does not; postgres.messages treats such messages as events, which is a different feature.",
	},
	{options: "streaming.delay.ms", verdict: Without, note: "The stream starts immediately."},
}

var snapshotRules = []rule{
	{
		options: "snapshot.mode", when: is("no_data", "never", "initial", "when_needed", "exported"), verdict: Without,
		note: noSnapshot,
	},
	{
		options: "snapshot.mode", when: is("always"), verdict: Decide,
		note: "Debezium sends the whole table again at each start; this program does not. If consumers rely on it, " +
			"publish rows again from the table (cdc-outbox replay).",
	},
	{
		options: "snapshot.mode", when: is("initial_only"), verdict: Refused,
		note: "The connector takes a snapshot and stops; there is nothing to take over.",
	},
	{
		options: "snapshot.mode", when: is("schema_only", "schema_only_recovery", "recovery"), verdict: Without,
		note: "A mode of connectors with a schema history, which a Postgres connector does not have. " + noSnapshot,
	},
	{options: "snapshot.mode", verdict: Decide, note: "Find out what the snapshotter does at startup. " + noSnapshot},
	{options: "snapshot.mode.configuration.based.start.stream", when: is("true"), verdict: Without, note: noSnapshot},
	{
		options: "snapshot.mode.configuration.based.start.stream", verdict: Refused,
		note: "The connector does not stream; there is nothing to take over.",
	},
	{options: `snapshot.mode.custom.name
		snapshot.mode.configuration.based.snapshot.data
		snapshot.mode.configuration.based.snapshot.schema
		snapshot.mode.configuration.based.snapshot.on.schema.error
		snapshot.mode.configuration.based.snapshot.on.data.error
		snapshot.isolation.mode snapshot.locking.mode snapshot.locking.mode.custom.name
		snapshot.query.mode snapshot.query.mode.custom.name
		snapshot.include.collection.list snapshot.select.statement.overrides
		snapshot.delay.ms snapshot.fetch.size snapshot.lock.timeout.ms
		snapshot.max.threads snapshot.max.threads.multiplier legacy.snapshot.max.threads
		snapshot.tables.order.by.row.count snapshot.scan.all.columns.force`, verdict: Without, note: noSnapshot},
	{options: `incremental.snapshot.chunk.size
		incremental.snapshot.allow.schema.changes
		incremental.snapshot.watermarking.strategy`, verdict: Without, note: noSignals},
}
