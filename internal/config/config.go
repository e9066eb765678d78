package config

import "time"

// Config is the whole configuration. A field's tag holds its key, its default, an example and, if only certain values
// are allowed, those values (oneof). The comment above a field is published: go generate copies it to
// docs/configuration.md and to the help of the program. Backquotes mark code.
type Config struct {
	// Where the connector finds rows. `wal` reads the write-ahead log through a replication slot. `polling`
	// queries the table itself, for databases without logical replication; docs/polling.md compares the two.
	Source string `key:"source" default:"wal" oneof:"wal|polling"`

	// Where the events come from.
	Postgres Postgres `key:"postgres"`

	// How the connector finds rows with `source: polling`. With `source: wal`, these keys are refused.
	Polling Polling `key:"polling"`

	// How a row becomes a Kafka record.
	Router Router `key:"router"`

	// The broker that takes the records. `kafka` is the main road; docs/nats.md says what works with `nats`, a
	// stream of NATS JetStream, and docs/rabbitmq.md with `rabbitmq`. `stdout` is for `run` on a command line: it
	// prints records instead of sending them.
	Sink string `key:"sink" default:"kafka" oneof:"kafka|nats|rabbitmq|stdout"`

	// The Kafka cluster, with `sink: kafka`. With another sink, these keys are refused.
	Kafka Kafka `key:"kafka"`

	// The stream, with `sink: nats`. With another sink, these keys are refused.
	NATS NATS `key:"nats"`

	// The exchanges, with `sink: rabbitmq`. With another sink, these keys are refused.
	RabbitMQ RabbitMQ `key:"rabbitmq"`

	// What a consumer may see after a crash. `at_least_once` uses the idempotent producer and repeats at most the
	// events that were in flight. `exactly_once` uses Kafka transactions: a consumer with
	// `isolation.level=read_committed` sees each event once. With `sink: nats`, see docs/nats.md; with
	// `sink: rabbitmq`, it is refused.
	Delivery string `key:"delivery" default:"at_least_once" oneof:"at_least_once|exactly_once"`

	// How much may be read from Postgres and not yet be acknowledged by Kafka. When the window is full, reading pauses.
	Window Window `key:"window"`

	// The monitor, which watches the slot on a separate SQL connection and sends alerts.
	Monitor Monitor `key:"monitor"`

	// What happens at an error that an operator has to fix, such as a lost slot, and at any other error that stops the
	// relay. `exit` ends the process, with exit code 3 for an operator and 1 otherwise. `stay` keeps the process: it is
	// not ready, holds no slot, says why on its page and in `/status`, metrics and alerts, looks again every few
	// seconds, and continues when the cause no longer exists. Where a supervisor restarts the process at once, as
	// Kubernetes does, `stay` keeps the explanation visible. A mistake in the configuration always ends the process.
	OnFault string `key:"on_fault" default:"exit" oneof:"exit|stay"`

	// What happens when the slot is lost: invalidated, or dropped. `report` is an error that an operator has to fix.
	// `heal` makes the slot again, compares the rows of the gap with the topics, publishes the rows that Kafka does not
	// have before anything is streamed, and settles the gap. Where absence from a topic or from the table proves
	// nothing, it refuses, and is like `report`. See docs/gaps.md.
	OnGap string `key:"on_gap" default:"report" oneof:"report|heal"`

	// The HTTP server for metrics, health and status.
	HTTP HTTP `key:"http"`

	// OpenTelemetry spans for a sample of the events.
	Traces Traces `key:"traces"`

	// The log on stderr.
	Log Log `key:"log"`
}

// Window bounds the records that are read from Postgres and not yet acknowledged by Kafka; when full, reading pauses.
type Window struct {
	// Maximum number of records in flight.
	Records int `key:"records" default:"100000"`

	// Maximum number of bytes in flight. The process needs about four times as much memory when it is full, which it
	// seldom is: while a sixteenth is in use (an eighth with delivery exactly_once), the next transaction is not read,
	// for it could only wait in memory. Where the connector spends a quarter of its time waiting for Kafka, that part
	// grows, up to a quarter of the window; where there are thousands of partitions, it is 2 KiB for each, up to three
	// quarters with delivery at_least_once. The rest is for large transactions, and with delivery at_least_once for a
	// Kafka that acknowledges nothing for half a second, such as a partition without a leader.
	Bytes Size `key:"bytes" default:"32MiB"`

	// The longest row that is received as a whole, in bytes as Postgres sends it: a bytea takes two for each byte. Of a
	// longer row or logical message, values of more than 64 KiB are left out. If one of them belongs into the record,
	// the row is too large (`router.bad_rows.too_large`). A command that reads a table, such as `replay`, ends at a
	// longer row, with an error that leads to it. A row may need four times its size in memory.
	Row Size `key:"row" default:"64MiB"`
}

// HTTP is the server with metrics, health and status.
type HTTP struct {
	// Address of `/metrics`, `/healthz`, `/readyz` and `/status`. `off` starts no server. The server has no
	// authentication: keep it on loopback or on a private network.
	Listen string `key:"listen" default:"127.0.0.1:9464" example:"0.0.0.0:9464"`

	// `/readyz` reports "not ready", and the log says so once, when Postgres has sent nothing for longer than
	// this, or when the oldest unacknowledged event has made no progress for longer than this. Working through a
	// backlog counts as progress. The connector keeps waiting: it neither gives up nor restarts.
	Stall time.Duration `key:"stall" default:"15s"`

	// Whether `/readyz` answers 200 while another instance holds the slot and this one waits for it. The body still
	// says that it waits, and `ready` in `/status` stays false. Kubernetes then counts a waiting instance as available,
	// which two replicas and a rolling update need. With `source: polling`, where no instance waits, it has no effect.
	StandbyReady bool `key:"standby_ready" default:"false"`
}

// Log configures the log on stderr.
type Log struct {
	// Lowest level that is written.
	Level string `key:"level" default:"info" oneof:"debug|info|warn|error"`

	// `json` is for machines, `console` for people. `auto` is `console` where stderr is a terminal, `json` otherwise.
	Format string `key:"format" default:"auto" oneof:"auto|json|console"`
}

// OnFaultStay is the value of on_fault with which the process stays.
const OnFaultStay = "stay"

// off is the word that turns a key off whose value is otherwise a name or an address.
const off = "off"

// Off reports whether there is no HTTP server.
func (h *HTTP) Off() bool { return h.Listen == off }

// TurnOff leaves the HTTP server out.
func (h *HTTP) TurnOff() { h.Listen = off }
