package config

import "time"

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

// Window bounds what is read from Postgres and not yet acknowledged by Kafka; full means that reading pauses.
type Window struct {
	Records int  `key:"records" default:"100000" doc:"Records in flight at most."`
	Bytes   Size `key:"bytes" default:"32MiB" doc:"Bytes in flight at most. The process needs about four times as much memory."`
}

// HTTP is the server with metrics, health and status.
type HTTP struct {
	Listen string        `key:"listen" default:"127.0.0.1:9464" example:"0.0.0.0:9464" doc:"Address of /metrics, /healthz, /readyz and /status; off for none. There is no authentication: keep it on loopback or a private network."`
	Stall  time.Duration `key:"stall" default:"15s" doc:"/readyz turns red, and the log says so once, when nothing was heard from Postgres, or the oldest unacknowledged event did not get on, for longer. Nothing is given up or restarted: it goes on waiting. Working off a backlog counts as getting on."`
}

// Log is what the process writes to stderr.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug|info|warn|error" doc:"Least level that is written."`
	Format string `key:"format" default:"json" oneof:"json|console" doc:"json for machines, console for people."`
}

// off is the word that turns a key off whose value is otherwise a name or an address.
const off = "off"

// Off reports whether there is no HTTP server.
func (h *HTTP) Off() bool { return h.Listen == off }

// TurnOff leaves the HTTP server out.
func (h *HTTP) TurnOff() { h.Listen = off }
