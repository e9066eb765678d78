package config

import "time"

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
