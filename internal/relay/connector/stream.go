package connector

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
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
