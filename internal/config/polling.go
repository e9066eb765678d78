package config

import "time"

// Polling configures source: polling.
type Polling struct {
	// Number of workers in this process. Each worker has its own connection to Postgres. Several processes can
	// share the work. More workers cost Postgres more per row: each reads the pages of the table again for its part
	// of the keys.
	Workers int `key:"workers" default:"2"`

	// Maximum number of rows that a worker fetches at a time, and marks together; fewer when they are large. Smaller
	// batches cost Postgres more per row. A crash repeats at most this many rows per worker.
	Batch int `key:"batch" default:"8000"`

	// Longest time between two queries while there are no new rows. After the last event, the time starts at `5ms`
	// and grows to this value.
	Interval time.Duration `key:"interval" default:"100ms"`

	// `setup` installs a trigger that sends a notification for each insert, and the connector listens, so rows are
	// found at once. The cost: transactions that notify take a lock one after another when they commit, and they
	// cannot be prepared (`PREPARE TRANSACTION`).
	Notify bool `key:"notify" default:"false"`

	// What happens to a row that Kafka has acknowledged. `mark` sets `polling.columns.published_at`. `delete`
	// deletes the row, which is cheaper and leaves nothing for `replay`.
	OnPublished string `key:"on_published" default:"mark" oneof:"mark|delete"`

	// Warn when the oldest unpublished row is older than this.
	WarnBacklog time.Duration `key:"warn_backlog" default:"1m"`

	// Raise a critical alert when the oldest unpublished row is older than this.
	CriticalBacklog time.Duration `key:"critical_backlog" default:"10m"`

	// Columns that polling adds to an outbox table.
	Columns PollingColumns `key:"columns"`
}

// PollingColumns names the columns that polling adds to an outbox table.
type PollingColumns struct {
	// Column with an increasing number, which puts the events of an aggregate in order.
	Sequence string `key:"sequence" default:"seq"`

	// Column with the time at which Kafka acknowledged the row. NULL: not yet.
	PublishedAt string `key:"published_at" default:"published_at"`
}
