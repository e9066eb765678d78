package polling

import (
	"cmp"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// After is the action on a row whose record is in Kafka.
type After string

// The actions.
const (
	Mark   After = "mark" // its column published_at is set
	Delete After = "delete"
)

// Columns are the columns that the relay itself uses.
type Columns struct {
	Key       string // that the record's key begins with: rows of one key have the same value there
	Sequence  string
	Published string
	Timestamp string // of the event, for the age of the backlog; empty: none
	ID        string // of the event; empty: it is not looked whether ids are unique
}

// Config is a Relay's configuration. Zero durations and sizes take the defaults named.
type Config struct {
	DSN     func() (string, error) // read again at each connect
	Dial    pgconn.DialFunc        // nil: as the connection string says
	Tables  []identifier.Table
	Columns Columns
	After   After // default Mark

	Sink        sink.Open                     // its producer has no owner
	NewRouter   func() (router.Router, error) // one for each worker
	Schemas     relay.Schemas                 // that the routers may need; nil: they need none
	Policies    relay.Policies                // for bad rows: a halted row blocks its lane only
	DeadLetters deadletter.Builder

	Workers  int           // default 2
	Batch    int           // rows that a worker reads at most before it marks them. Default 8000
	Interval time.Duration // between two queries while there is nothing to do. Default 100ms
	Notify   bool          // listen for the notifications of the trigger

	WindowRecords int           // default 100,000
	WindowBytes   int64         // default 32 MiB
	LongRow       int64         // a longer row is an error, see postgres.LimitRows. Default: rows have no bound
	Stall         time.Duration // default 15 s
	DrainLimit    time.Duration // default 8 s
	LookEvery     time.Duration // at the backlog. Default 5 s

	Metrics *telemetry.Metrics
	Logger  *zap.Logger
}

func (cfg *Config) setDefaults() {
	cfg.After = cmp.Or(cfg.After, Mark)
	cfg.Workers = cmp.Or(cfg.Workers, 2)
	cfg.Batch = cmp.Or(cfg.Batch, 8000)
	cfg.Interval = cmp.Or(cfg.Interval, 100*time.Millisecond)
	cfg.WindowRecords = cmp.Or(cfg.WindowRecords, 100_000)
	cfg.WindowBytes = cmp.Or(cfg.WindowBytes, 32<<20)
	cfg.Stall = cmp.Or(cfg.Stall, 15*time.Second)
	cfg.DrainLimit = cmp.Or(cfg.DrainLimit, 8*time.Second)
	cfg.LookEvery = cmp.Or(cfg.LookEvery, 5*time.Second)
}

func (cfg *Config) setup() Setup {
	return Setup{Dial: cfg.Dial, Tables: cfg.Tables, Columns: cfg.Columns, After: cfg.After, Notify: cfg.Notify}
}
