package replication

import (
	"context"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Config configures Run.
type Config struct {
	// DSN returns the connection string. It is asked at each connect, so that a rotated password is seen. Required.
	DSN         func() (string, error)
	Slot        string // required
	Publication string // required; any name Postgres allows
	Tables      []identifier.Table
	Messages    []string // prefixes of logical messages that are events; none: the server sends no messages

	// Columns and Failover are for the SQL in remedies only.
	Columns  postgres.Columns
	Failover bool

	// Checkpoint is the table that stores how far the slot is confirmed, as setup creates it; none if it has no name. A
	// table that does not exist, or may not be used, is skipped, with a warning in the log.
	Checkpoint identifier.Table

	// Marked, if set, receives the mark of each write of the checkpoint, to be kept outside of the server, once the
	// write is durable. It must not block.
	Marked func(Mark)

	// HotStandby allows DSN to lead to a hot standby, 16+. The checkpoint is then written at PrimaryDSN, which may be
	// nil if there is no Checkpoint.
	HotStandby bool
	PrimaryDSN func() (string, error)

	// Confirmed returns the position that may be reported as flushed: the tracker's word. It is asked from several
	// goroutines and must be cheap. 0 means unknown: the slot's own position counts. Required.
	Confirmed func() lsn.LSN

	// From, if set, returns a position at which a stream starts if it is before Confirmed; the slot's own position is
	// the least. So a stream repeats rows that are already known.
	From func() lsn.LSN

	// Withhold has each stream confirm nothing before Stream.Confirm is called. The caller finds out first whether the
	// server was put back (Stream.Compare), and whether another instance has published meanwhile.
	Withhold bool

	// OnIdentity, if set, is called on each connection once the slot has been looked at and before the stream
	// starts: the moment to initialise the tracker with the slot's position, to resume it or to rewind it. An error
	// ends the attempt; Retry tries again, every other kind ends Run.
	OnIdentity func(Identity) error
	// OnState, if set, receives Run's state, from Run's goroutine.
	OnState func(State)

	// PassOver, if set, reports whether the rows of a table are of no interest: they are then received as
	// KindPassedOver, and little is kept of the table. It is called from Receive.
	PassOver func(*pgoutput.Relation) bool

	// LongRow bounds the memory that one row takes: of a row, or a logical message, that is longer, in bytes as the
	// server sends it, only values of up to 64 KiB are received, see pgoutput.Cutter. 0: rows have no bound.
	LongRow int64

	// OnWait, if set, is called by Receive before it waits for the server: the moment to send records that wait for a
	// batch to fill. While a backlog is read it is called ten times a second only. It must not block.
	OnWait func()

	// StatusInterval is how often confirmed positions are reported to the server; never more than a third of its
	// wal_sender_timeout. Default 1s.
	StatusInterval time.Duration
	// Silence is how long Receive waits for the server's next byte before the connection counts as dead; after half of
	// it the server is asked for a sign of life. Default 60s.
	Silence time.Duration
	// IdleAsk is how long the server may be silent before it is asked for a keepalive; never more than half of Silence.
	// Default 5s.
	IdleAsk time.Duration
	// ConnectTimeout bounds one attempt to reach one host, unless the DSN has a connect_timeout. Default 10s.
	ConnectTimeout time.Duration
	// Dial opens every connection to a server. Default: as the DSN says.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger *zap.Logger // default: none
}

// startTimeout bounds everything between the established connection and the begin of the stream.
const startTimeout = 60 * time.Second

// check refuses settings that cannot work and fills in the defaults.
func (c Config) check() (*Config, error) {
	bad := func(object string, err error, next string) error {
		return &fault.Error{Kind: fault.Config, Object: object, Err: err, Next: next}
	}
	if err := identifier.CheckSlotName(c.Slot); err != nil {
		return nil, bad("slot", err, "Set postgres.slot to another name.")
	}
	if err := identifier.Check(c.Publication); err != nil {
		return nil, bad("publication", err, "Set postgres.publication.")
	}
	if c.DSN == nil || c.Confirmed == nil {
		return nil, bad("replication stream", errors.New("DSN and Confirmed are required"), "")
	}
	if c.HotStandby && c.Checkpoint.Name != "" && c.PrimaryDSN == nil {
		return nil, bad("replication stream",
			errors.New("a standby cannot be written, so the checkpoint needs PrimaryDSN"),
			"Set postgres.primary_dsn, or postgres.checkpoint to off.")
	}
	if c.StatusInterval <= 0 {
		c.StatusInterval = time.Second
	}
	if c.Silence <= 0 {
		c.Silence = time.Minute
	}
	if c.IdleAsk <= 0 {
		c.IdleAsk = idleAsk
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	if c.OnIdentity == nil {
		c.OnIdentity = func(Identity) error { return nil }
	}
	if c.OnWait == nil {
		c.OnWait = func() {}
	}
	if c.OnState == nil {
		c.OnState = func(State) {}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.Logger = c.Logger.With(zap.String(logkey.Slot, c.Slot))
	return &c, nil
}
