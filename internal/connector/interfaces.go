package connector

import (
	"context"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// stream is what the reader needs of a replication.Stream.
type stream interface {
	Receive() (*replication.Message, error)
	Buffered() bool
	Interrupt()
	Finish(ctx context.Context) error
	Received() pglogrepl.LSN
	LastHeard() time.Time
}

// producer is what the connector needs of a kafka.Producer: ordered per partition, nothing kept of the record after
// Produce returns, each ticket acknowledged exactly once.
type producer interface {
	Run(ctx context.Context) error
	Produce(ctx context.Context, rec *router.Record, ticket uint64) error
	Flush()
	Drain(ctx context.Context) error
	Trouble() []kafka.Trouble
}
