package config

import (
	"slices"
	"time"
)

// Config is the whole configuration. Each field's tags hold its key, its default, what it means and, where only certain
// words are allowed, those words.
type Config struct {
	Source   string   `key:"source" default:"wal" oneof:"wal|polling" doc:"Where rows are found: wal, the write-ahead log, by a replication slot; polling, the table itself, for databases without logical replication; docs/polling.md."`
	Postgres Postgres `key:"postgres"`
	Polling  Polling  `key:"polling"`
	Router   Router   `key:"router"`
	Kafka    Kafka    `key:"kafka"`
	Delivery string   `key:"delivery" default:"at_least_once" oneof:"at_least_once|exactly_once" doc:"What a consumer may see after a crash: at_least_once (idempotent producer) repeats at most what was in flight, exactly_once (Kafka transactions) repeats nothing for a read_committed consumer."`
	Window   Window   `key:"window"`
	Monitor  Monitor  `key:"monitor"`
	HTTP     HTTP     `key:"http"`
	Traces   Traces   `key:"traces"`
	Log      Log      `key:"log"`
}

// Postgres is where the rows come from.
type Postgres struct {
	DSN         Secret   `key:"dsn" mask:"dsn" example:"postgres://cdc_outbox@db.internal:5432/shop?sslmode=verify-full" doc:"Connection string, a URL or keyword=value pairs, several hosts too. Empty: the PG* environment variables (PGHOST, PGUSER, PGPASSWORD, PGSERVICE, …). The user needs the REPLICATION attribute."`
	Slot        string   `key:"slot" default:"cdc_outbox" doc:"Replication slot, one per connector: lower-case letters, digits and underscores, 63 at most."`
	Publication string   `key:"publication" default:"cdc_outbox" doc:"Publication that holds the outbox tables."`
	Tables      []string `key:"tables" default:"public.outbox" example:"public.outbox,billing.outbox" doc:"Outbox tables as schema.table; a partitioned table by its root. off for none, where there are postgres.messages."`
	Messages    []string `key:"messages" example:"outbox" doc:"Prefixes of pg_logical_emit_message(true, prefix, content) whose messages are events, without a table; docs/messages.md describes the content."`
	Checkpoint  string   `key:"checkpoint" default:"public.cdc_outbox_slots" doc:"Table that remembers how far the slot is confirmed, so that a slot that was dropped and made anew, moved by hand or missing after a failover is refused instead of leaving a gap that nobody notices. setup creates it. A table that is not there is done without; off for none."`
	OnChange    string   `key:"on_change" default:"warn" oneof:"warn|ignore|halt" doc:"What to do at an UPDATE or TRUNCATE of the outbox, where the publication sends them: they are no events. warn counts them and says so in the log, ignore only counts, halt stands still in front of them. A DELETE is counted and never halts: that is how an outbox is emptied. Debezium's table.op.invalid.behavior."`
	Setup       string   `key:"setup" default:"auto" oneof:"auto|never" doc:"auto creates publication and slot when both are absent (a publication whose slot is gone is a lost slot and needs an operator); never only checks."`
	Snapshot    string   `key:"snapshot" default:"never" oneof:"never|initial" doc:"initial publishes the rows that are in the tables when the slot is created, once and before all others; docs/snapshot.md. A slot that exists already is not affected."`
	HotStandby  bool     `key:"hot_standby" default:"false" doc:"postgres.dsn leads to a hot standby, and the slot is there. PostgreSQL 16 and newer; docs/deploy.md says what that takes."`
	PrimaryDSN  Secret   `key:"primary_dsn" mask:"dsn" example:"postgres://cdc_outbox@db-1.internal,db-2.internal:5432/shop?target_session_attrs=read-write" doc:"Connection string of the primary, where postgres.hot_standby is set: what setup makes besides the slot is made there, and postgres.checkpoint written. It carries no events."`
	Failover    bool     `key:"failover" default:"false" doc:"Create the slot with failover, so that it lives on after a switch to a standby. PostgreSQL 17 and newer."`
}

// Polling is how rows are found where source is polling.
type Polling struct {
	Workers         int            `key:"workers" default:"4" doc:"Workers of this process, each with a connection to Postgres. Several processes share the work as well."`
	Batch           int            `key:"batch" default:"1000" doc:"Rows a worker takes at a time at most, and marks together."`
	Interval        time.Duration  `key:"interval" default:"100ms" doc:"Time between two looks at the table while there is nothing to do; after the last event looks begin at 5ms and get rarer up to this."`
	Notify          bool           `key:"notify" default:"false" doc:"setup installs a trigger that notifies at each insert, and the relay listens: rows are found at once. Transactions that notify take a lock at commit one after the other, and cannot be prepared (PREPARE TRANSACTION)."`
	OnPublished     string         `key:"on_published" default:"mark" oneof:"mark|delete" doc:"What happens to a row that is in Kafka: mark sets polling.columns.published_at, delete deletes the row, which is cheaper and leaves nothing for replay."`
	WarnBacklog     time.Duration  `key:"warn_backlog" default:"1m" doc:"Warn when the oldest unpublished row is older than this."`
	CriticalBacklog time.Duration  `key:"critical_backlog" default:"10m" doc:"Critical when the oldest unpublished row is older than this."`
	Columns         PollingColumns `key:"columns"`
}

// PollingColumns are those that polling adds to an outbox table.
type PollingColumns struct {
	Sequence    string `key:"sequence" default:"seq" doc:"Column that counts up and puts the events of an aggregate in order."`
	PublishedAt string `key:"published_at" default:"published_at" doc:"Column that says when Kafka had the row; NULL: not yet."`
}

// Router says how a row becomes a record.
type Router struct {
	Preset          string      `key:"preset" default:"outbox" oneof:"outbox|debezium" doc:"outbox: the defaults of this section; debezium: names, topics and headers as Debezium's outbox event router has them."`
	Columns         Columns     `key:"columns"`
	Topic           string      `key:"topic" default:"${aggregate_type}.events" doc:"Topic of a row; ${aggregate_type}, ${aggregate_id} and ${type} are replaced by the row's column of that role, ${column:NAME} by any other column."`
	KeyColumns      []string    `key:"key_columns" example:"tenant,aggregate_id" doc:"Columns that the record's key is made of, in place of router.columns.aggregate_id. One gives its text; several give a JSON array of their texts, such as [\"eu\",\"42\"], which no other values can give."`
	Format          string      `key:"format" default:"payload" oneof:"payload|envelope|cloudevents_binary|cloudevents_structured" doc:"What the record's value is: payload, the payload column as it is; envelope, a JSON object with eventId, eventType, eventVersion, aggregateType, aggregateId, occurredAt, traceId and the payload as data; or a CloudEvent in the binary or the structured form of its Kafka binding."`
	StaticHeaders   []string    `key:"static_headers" example:"source=shop,region=eu" doc:"Headers that every record carries, as name=value."`
	ColumnHeaders   []string    `key:"column_headers" example:"tenant,event_version:version" doc:"Columns that become headers, as column or column:name. NULL gives a header with a null value."`
	Envelope        Envelope    `key:"envelope"`
	CloudEvents     CloudEvents `key:"cloudevents"`
	Registry        Registry    `key:"registry"`
	Debezium        Debezium    `key:"debezium"`
	OnBadRow        string      `key:"on_bad_row" default:"halt" oneof:"halt|dead_letter|skip" doc:"What to do with a row that can never be published as it is: halt in front of it and say so, write it to the dead-letter topic and go on, or skip it."`
	DeadLetterTopic string      `key:"dead_letter_topic" default:"cdc-outbox.dead-letter" doc:"Topic for dead letters. It must exist, be writable and keep its records (cleanup.policy=delete): while it cannot be written, nothing after a bad row is published."`
	BadRows         BadRows     `key:"bad_rows"`
}

// BadRows is on_bad_row for one kind of bad row each; empty means as on_bad_row says.
type BadRows struct {
	Unroutable    string `key:"unroutable" oneof:"|halt|dead_letter|skip" doc:"Policy for rows without a topic or with an illegal one. Empty: as router.on_bad_row."`
	NullKey       string `key:"null_key" oneof:"|halt|dead_letter|skip" doc:"Policy for rows whose id or aggregate id is NULL. Empty: as router.on_bad_row."`
	MissingColumn string `key:"missing_column" oneof:"|halt|dead_letter|skip" doc:"Policy for rows of a table that lacks a column, which means every row of it. Empty: as router.on_bad_row."`
	TooLarge      string `key:"too_large" oneof:"|halt|dead_letter|skip" doc:"Policy for records that are larger than their topic takes. halt waits, and goes on by itself when the topic's max.message.bytes is raised. Empty: as router.on_bad_row."`
	Unconvertible string `key:"unconvertible" oneof:"|halt|dead_letter|skip" doc:"Policy for rows with a value that is not what it has to be: headers that are no JSON object, a timestamp that is none. Empty: as router.on_bad_row."`
}

// Columns names the outbox table's columns by their role.
type Columns struct {
	ID            string `key:"id" default:"id" doc:"Column with the event's id; becomes the header id."`
	AggregateType string `key:"aggregate_type" default:"aggregate_type" doc:"Column that the topic is made from."`
	AggregateID   string `key:"aggregate_id" default:"aggregate_id" doc:"Column that becomes the record's key and so decides the partition."`
	Type          string `key:"type" default:"event_type" doc:"Column with the event's type; becomes the header type."`
	Payload       string `key:"payload" default:"payload" doc:"Column that becomes the record's value, byte for byte; NULL is a tombstone."`
	Headers       string `key:"headers" default:"headers" doc:"JSON object whose members become headers."`
	Timestamp     string `key:"timestamp" default:"created_at" doc:"Column that becomes the record's timestamp; where a row has none, the commit time."`
}

// Kafka is where the records go.
type Kafka struct {
	Brokers     []string `key:"brokers" default:"127.0.0.1:9092" example:"kafka-1:9092,kafka-2:9092" doc:"Brokers to ask for the cluster's metadata, host:port."`
	Compression string   `key:"compression" default:"none" oneof:"none|gzip|snappy|lz4|zstd" doc:"Compression of record batches."`
	TLS         TLS      `key:"tls"`
	SASL        SASL     `key:"sasl"`
	Topics      Topics   `key:"topics"`
}

// TLS is the encryption of the connections to Kafka.
type TLS struct {
	Enabled            bool   `key:"enabled" default:"false" doc:"Encrypt the connections to Kafka."`
	CA                 string `key:"ca" example:"/etc/kafka/ca.pem" doc:"PEM file with the authorities that may sign the brokers' certificates. Empty: the system's."`
	Cert               string `key:"cert" example:"/etc/kafka/client.pem" doc:"PEM file with the client's certificate. Read again for each connection, so it can be rotated."`
	Key                string `key:"key" example:"/etc/kafka/client-key.pem" doc:"PEM file with the client's private key. Read again for each connection."`
	ServerName         string `key:"server_name" doc:"Name the brokers' certificates must carry. Empty: the host that is dialled."`
	InsecureSkipVerify bool   `key:"insecure_skip_verify" default:"false" doc:"Accept any certificate: whoever stands in between can read and change everything. For tests only."`
}

// SASL is how the connector authenticates to Kafka.
type SASL struct {
	Mechanism string `key:"mechanism" oneof:"|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512" doc:"SASL mechanism. Empty: no authentication."`
	Username  Secret `key:"username" example:"cdc-outbox" doc:"User name for SASL."`
	Password  Secret `key:"password" example:"@/run/secrets/kafka-password" doc:"Password for SASL."`
}

// Topics says what to do about topics that do not exist.
type Topics struct {
	Create            bool              `key:"create" default:"false" doc:"Create a topic that a row needs and that does not exist. The user needs the right to: CREATE on the cluster, or on topics with the prefix in question. Names that start with __ are never created."`
	Partitions        int               `key:"partitions" default:"12" doc:"Partitions of a topic created here."`
	ReplicationFactor int               `key:"replication_factor" default:"3" doc:"Replicas of a topic created here."`
	Config            map[string]string `key:"config" example:"{\"min.insync.replicas\": \"2\", \"retention.ms\": \"604800000\"}" doc:"Topic configuration of a topic created here, by Kafka's names. A mapping in the file, JSON in a variable or flag."`
	Rules             []TopicRule       `key:"rules" example:"[{\"pattern\": \"orders.*\", \"partitions\": 24, \"config\": {\"cleanup.policy\": \"delete\"}}]" doc:"What is different for some of the topics created here. Each rule has a pattern and any of partitions, replication_factor and config; the first whose pattern fits the whole name counts. In a pattern * is any text, ? any one character and [a-z] one of these; a dot is a dot. What a rule leaves out is as above, config key by key. A list of mappings in the file, JSON in a variable or flag."`
}

// Window bounds what is read from Postgres and not yet acknowledged by Kafka; full means that reading pauses.
type Window struct {
	Records int  `key:"records" default:"100000" doc:"Records in flight at most."`
	Bytes   Size `key:"bytes" default:"32MiB" doc:"Bytes in flight at most. The process needs about four times as much memory."`
}

// Monitor watches the slot over an SQL connection of its own.
type Monitor struct {
	Interval         time.Duration `key:"interval" default:"5s" doc:"How often the slot is looked at."`
	WarnRetained     Size          `key:"warn_retained" default:"1GiB" doc:"Warn when the slot holds back more WAL than this."`
	CriticalRetained Size          `key:"critical_retained" default:"10GiB" doc:"Critical when the slot holds back more WAL than this."`
	WALVolume        Size          `key:"wal_volume" default:"0" example:"100GiB" doc:"Size of the volume that holds pg_wal, which no SQL tells. With it, the time until it is full is forecast. 0: not known. A role with pg_monitor lets everything in pg_wal count, else only what the slot holds back does."`
	RepeatInterval   time.Duration `key:"repeat_interval" default:"1h" doc:"An alert that still fires is told again in log and webhook after so long."`
	Webhook          Secret        `key:"webhook" example:"@/run/secrets/webhook" doc:"URL that alerts are posted to. It is never shown; one in a file is read again for each request."`
	WebhookFormat    string        `key:"webhook_format" default:"json" oneof:"json|alertmanager|slack" doc:"What is posted: json, an object with alert, state, level, slot, figures, cause and runbook; alertmanager, to Alertmanager's API v2, whose path is added to the URL; slack, a message to an incoming webhook."`
}

// HTTP is the server with metrics, health and status.
type HTTP struct {
	Listen string        `key:"listen" default:"127.0.0.1:9464" example:"0.0.0.0:9464" doc:"Address of /metrics, /healthz, /readyz and /status; off for none. There is no authentication: keep it on loopback or a private network."`
	Stall  time.Duration `key:"stall" default:"15s" doc:"/readyz turns red, and the log says so once, when nothing was heard from Postgres, or the oldest unacknowledged event did not get on, for longer. Nothing is given up or restarted: it goes on waiting. Working off a backlog counts as getting on."`
}

// Traces sends a span for each sampled event to an OpenTelemetry collector.
type Traces struct {
	Endpoint string `key:"endpoint" example:"http://otel-collector:4318" doc:"Collector that takes OTLP: a span for each sampled event goes there, docs/tracing.md. http:// or https://, without a path /v1/traces is added. Empty: as the standard variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT say, and without them none; off for none whatever they say."`
	Protocol string `key:"protocol" oneof:"|http|grpc" doc:"How the collector is spoken to: http (protobuf, usually port 4318) or grpc (usually port 4317). Empty: as OTEL_EXPORTER_OTLP_PROTOCOL says, else http."`
	Sample   Share  `key:"sample" default:"1%" example:"0.1%" doc:"Share of the events without a traceparent that get a span, from 0 to 100% (or from 0 to 1). Of those with one, all get a span whose traceparent says that the trace is sampled, and no others. Where it is not set, OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG count."`
	Limit    int    `key:"limit" default:"1000" doc:"Spans a second at most; events beyond it get none, and are counted. 0: no limit."`
	Headers  Secret `key:"headers" example:"@/run/secrets/otlp-headers" doc:"Headers for the collector, such as authorization=Bearer%20s3cret: name=value, several with commas between, values percent-encoded. Read at the start. Empty: as OTEL_EXPORTER_OTLP_HEADERS says."`
}

// Log is what the process writes to stderr.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug|info|warn|error" doc:"Least level that is written."`
	Format string `key:"format" default:"json" oneof:"json|console" doc:"json for machines, console for people."`
}

// off is the word that turns a key off whose value is otherwise a name or an address.
const off = "off"

// OutboxTables returns postgres.tables, none where the key is off.
func (p *Postgres) OutboxTables() []string {
	return slices.DeleteFunc(slices.Clone(p.Tables), func(table string) bool { return table == off })
}

// CheckpointTable returns postgres.checkpoint, and nothing where the key is off.
func (p *Postgres) CheckpointTable() string {
	if p.Checkpoint == off {
		return ""
	}
	return p.Checkpoint
}

// Off reports whether there is no HTTP server.
func (h *HTTP) Off() bool { return h.Listen == off }

// TurnOff leaves the HTTP server out.
func (h *HTTP) TurnOff() { h.Listen = off }
