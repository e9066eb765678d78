package connector

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// stream is the reader's view of a replication.Stream.
type stream interface {
	Receive() (*pgoutput.Message, error)
	Interrupt()
	Broken() <-chan struct{}
	Finish(ctx context.Context) error
	Received() lsn.LSN
	LastHeard() time.Time
	ServerNow() time.Time
	HeldBack() (since time.Time, why error)
	Holds(ctx context.Context) error
	Compare(ctx context.Context, kept replication.Mark, holder string) error
	Confirm()
	Past(ctx context.Context, at lsn.LSN) (bool, error)
}

// keeper keeps the slot's checkpoint outside of Postgres, if the producer has no transactions to keep it with.
type keeper interface {
	Run(ctx context.Context) error
	Fetch(ctx context.Context, group string) (kafka.Stored, bool, error)
	Keep(group string, s kafka.Stored)
	NotAllowed(group string)
}

// producer is the connector's view of a kafka.Producer: ordered per partition, nothing kept of the record after
// ProduceAt returns, each ticket acknowledged once or counted by Abandon. Mark, Commit and Full are about transactions.
type producer interface {
	Run(ctx context.Context) error
	Latest(ctx context.Context, owner kafka.Owner) (kafka.Stored, bool, error)
	Begin(ctx context.Context, owner kafka.Owner) (kafka.Stored, bool, error)
	Keep(ctx context.Context) error
	Remember(m kafka.Mark)
	Remembered(ctx context.Context) error
	Abandon() kafka.Dropped
	ProduceAt(ctx context.Context, rec *router.Record, ticket uint64, pos kafka.Position) error
	Mark()
	Commit()
	Full()
	Flush()
	Drain(ctx context.Context) error
	Trouble() []kafka.Trouble
	Grown() []kafka.Growth
	Partitions() int64
	Refresh()
}
