package migrate

const (
	pluginNote    = "The slot is decoded by decoderbufs, Debezium's default, and this program reads pgoutput: it cannot be taken over. " + ownSlot
	ownSlot       = "Make a slot of our own side by side (see the steps), and switch by comparing."
	allTablesNote = "The publication may be FOR ALL TABLES: rows of other tables are then decoded, sent and ignored " +
		"here, too. A publication of only the outbox table costs Postgres less."
	onlyInserts = "Only inserts are events, here as in the event router."
	noSnapshot  = "There is no snapshot when the slot is taken over: it starts where Debezium's confirmed position is."
	noSignals   = "There are no signals and no incremental snapshots. If the table is in the publication its rows " +
		"are ignored."
)

// connectionRules judges the options of connections to Postgres. postgres.go makes one connection string of them.
var connectionRules = []rule{
	{
		options: `database.hostname database.port database.user database.dbname database.sslmode database.sslrootcert
			database.sslcert`,
		verdict: Translated, key: "postgres.dsn",
	},
	{options: "database.password", judge: password},
	{
		options: "database.sslkey", when: endsIn(".pk8", ".der"), verdict: Decide, key: "postgres.dsn",
		note: "pgjdbc's key is DER; here it is PEM: openssl pkcs8 -nocrypt -inform DER -in {value} -out client.key, and " +
			"name that file.",
	},
	{options: "database.sslkey", verdict: Translated, key: "postgres.dsn", note: "It has to be PEM."},
	{
		options: "database.sslpassword", verdict: Decide,
		note: "A key with a passphrase: put sslpassword into the connection string, and that into a file.",
	},
	{
		options: "database.sslfactory", verdict: Decide,
		note: "A Java class chooses the certificates; say the same with sslmode, sslrootcert, sslcert and sslkey in " +
			"postgres.dsn.",
	},
	{
		options: "database.initial.statements", verdict: Decide,
		note: "Statements are run on no connection here. What sets a parameter can be in the connection string " +
			"(options=-c …) or ALTER ROLE … SET.",
	},
	{options: "database.tcpKeepAlive", verdict: Without, note: "TCP keep-alive is on."},
	{options: "database.query.timeout.ms", verdict: Without, note: "A matter of Debezium's queries."},
	{
		options: "database.connection.timeout.ms", verdict: Without,
		note: "connect_timeout in the connection string does it where it is wanted.",
	},
	{
		options: "database.connection.factory.class", verdict: Decide,
		note: "A Java class makes the connections; say in postgres.dsn what it does.",
	},
	{options: "read.only", when: is("false"), verdict: Without, note: noSignals},
	{
		options: "read.only", verdict: Decide,
		note: "On a read-only server (a standby, PostgreSQL 16 or later) publication and slot have to be made by hand; " +
			"set postgres.setup: never.",
	},
	{options: "connection.validation.timeout.ms", verdict: Without, note: retries},
}

// replicationRules judges the options of slot, publication and stream.
var replicationRules = []rule{
	{
		options: "plugin.name", when: is("pgoutput"), verdict: Without,
		note: "The slot's plugin is pgoutput, which is read here too: the slot can be taken over.",
	},
	{
		options: "plugin.name", verdict: Refused,
		note: "The slot is decoded by {value} and this program reads pgoutput: it cannot be taken over. " + ownSlot,
	},
	{
		options: "slot.name", verdict: Translated, key: "postgres.slot",
		note: "The same slot goes on.",
		set:  func(m *migration, _, value string) { m.slot = value },
	},
	{
		options: "publication.name", verdict: Translated, key: "postgres.publication",
		note: "The same publication goes on.",
		set:  func(m *migration, _, value string) { m.pub = value },
	},
	{
		options: "slot.drop.on.stop", when: is("true"), verdict: Decide,
		note: "Stopping the connector drops the slot, and what is committed before ours starts is LOST. Set it to false " +
			"and let the connector restart before you stop it.",
	},
	{options: "slot.drop.on.stop", verdict: Without, note: "This program never drops a slot."},
	{options: "slot.failover", verdict: Translated, key: "postgres.failover", set: truth},
	{options: "slot.stream.params", when: is(""), verdict: Without, note: "Empty."},
	{
		options: "slot.stream.params", verdict: Decide,
		note: "Parameters of the decoder are not passed on. Of pgoutput's, origin=none would change which rows come.",
	},
	{options: "slot.max.retries slot.retry.delay.ms", verdict: Without, note: retries},
	{
		options: "slot.seek.to.known.offset.on.start", verdict: Without,
		note: "The slot's own position decides, Debezium's offsets are not read.",
	},
	{
		options: "offset.mismatch.strategy", verdict: Without,
		note: "The slot's own position decides, Debezium's offsets are not read. For the way back, trust_slot is the " +
			"setting to have.",
	},
	{options: "create.slot.command.timeout", verdict: Without, note: "The slot is there."},
	{
		options: "publication.autocreate.mode", when: is("disabled", "filtered"), verdict: Without,
		note: "The publication is there and is used as it is.",
	},
	{
		options: "publication.autocreate.mode", when: is("no_tables"), verdict: Decide,
		note: "Check that the publication holds the outbox table.",
	},
	{options: "publication.autocreate.mode", verdict: Without, note: allTablesNote},
	{
		options: "publish.via.partition.root", when: is("true"), verdict: Without,
		note: "The publication has it, and stays. Name partitioned tables by their root in postgres.tables.",
	},
	{
		options: "publish.via.partition.root", verdict: Without,
		note: "If the outbox table is partitioned, ALTER PUBLICATION … SET (publish_via_partition_root = true) first: " +
			"rows come under their partition's name otherwise.",
	},
	{
		options: "replica.identity.autoset.values", verdict: Without,
		note: onlyInserts + "Inserts need no replica identity.",
	},
	{
		options: "flush.lsn.source lsn.flush.mode", when: is("manual", "false"), verdict: Decide,
		note: "Debezium does not move the slot; somebody else does. Here the slot moves over what Kafka has " +
			"acknowledged: stop the other, and look at confirmed_flush_lsn first, for all behind it is sent again.",
	},
	{
		options: "flush.lsn.source lsn.flush.mode", verdict: Without,
		note: "The slot moves over what Kafka has acknowledged, and over a quiet database without heartbeats.",
	},
	{
		options: "lsn.flush.timeout.ms lsn.flush.timeout.action", verdict: Without,
		note: "The confirmed position goes with every status message.",
	},
	{
		options: "status.update.interval.ms", verdict: Without,
		note: "Status messages follow wal_sender_timeout and progress.",
	},
	{options: "xmin.fetch.interval.ms", verdict: Without, note: internals},
	{options: "schema.refresh.mode", verdict: Without, note: "Postgres announces each table's columns before its rows."},
	{options: "message.prefix.include.list message.prefix.exclude.list", when: is(""), verdict: Without, note: "Empty."},
	{
		options: "message.prefix.include.list message.prefix.exclude.list", verdict: Decide, key: "postgres.messages",
		note: "The event router passes messages of pg_logical_emit_message on to <topic.prefix>.message unchanged. " +
			"Nothing does so here; postgres.messages takes them as events, which is something else.",
	},
	{options: "streaming.delay.ms", verdict: Without, note: "The stream begins at once."},
}

var snapshotRules = []rule{
	{
		options: "snapshot.mode", when: is("no_data", "never", "initial", "when_needed", "exported"), verdict: Without,
		note: noSnapshot,
	},
	{
		options: "snapshot.mode", when: is("always"), verdict: Decide,
		note: "Debezium sends the whole table again at each start; nothing here does. If consumers rely on it, publish " +
			"rows again from the table (docs/runbook.md).",
	},
	{
		options: "snapshot.mode", when: is("initial_only"), verdict: Refused,
		note: "The connector only takes a snapshot and ends; there is nothing to take over.",
	},
	{options: "snapshot.mode", verdict: Decide, note: "Find out what the snapshotter does at a start. " + noSnapshot},
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
