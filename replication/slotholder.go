package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// holderTimeout bounds the question who holds the slot, connecting included.
const holderTimeout = 10 * time.Second

// Holds asks the server, over another connection, whether this stream's session still holds the slot; nil when it does.
// The stream alone cannot tell: a process that was suspended finds in its socket messages that arrived long ago. Any
// other answer, and none, is an error: end the stream with it. Holds reads on if the session has ended, for the reason.
func (s *Stream) Holds(ctx context.Context) error {
	_, err := s.askHolder(ctx)
	return err
}

// Past reports whether the slot's own position is past a commit record, so that its transaction is not sent.
func (s *Stream) Past(ctx context.Context, commit lsn.LSN) (bool, error) {
	at, err := s.askHolder(ctx)
	return at > commit, err
}

func (s *Stream) askHolder(ctx context.Context) (lsn.LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, holderTimeout)
	defer cancel()
	pid, at, err := s.holder(ctx)
	switch {
	case err != nil:
		return 0, &fault.Error{
			Kind: fault.Retry, Object: s.cfg.object(),
			Err:  fmt.Errorf("ask the server which session holds it: %w", err),
			Next: "See that the role of postgres.dsn may open one more session beside the stream.",
		}
	case pid == 0: // the session has ended; the stream has the reason, after the messages it has received
		for err == nil {
			_, err = s.Receive()
		}
		if !errors.Is(err, ErrInterrupted) {
			return 0, err
		}
		fallthrough
	case pid != s.identity.BackendPID:
		err = errors.New("the stream's session does not hold it any more")
		return 0, &fault.Error{Kind: fault.Retry, Object: s.cfg.object(), Err: err}
	}
	return at, nil
}

// Confirm lifts Config.Withhold for this stream.
func (s *Stream) Confirm() { s.withheld.Store(false) }

// confirmed is the position that may be confirmed on this stream; 0: none but the slot's own.
func (s *Stream) confirmed() lsn.LSN {
	if s.withheld.Load() {
		return 0
	}
	return s.cfg.Confirmed()
}

// holder returns the session that holds the slot, 0 for none, and the slot's position.
func (c *connection) holder(ctx context.Context, slot string) (pid uint32, at lsn.LSN, err error) {
	pc := c.config.Copy()
	delete(pc.RuntimeParams, "replication") // max_wal_senders must not decide
	dial := pc.DialFunc
	pc.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != c.address { // if the DSN names several servers, another one knows nothing of this session
			return nil, fmt.Errorf("%s is not the server of the stream", addr)
		}
		return dial(ctx, network, addr)
	}
	conn, err := pgconn.ConnectConfig(ctx, pc)
	if err != nil {
		return 0, 0, err
	}
	defer login.Hangup(conn)
	results, err := conn.Exec(ctx, `SELECT coalesce(active_pid, 0), confirmed_flush_lsn
		FROM pg_catalog.pg_replication_slots WHERE slot_name OPERATOR(pg_catalog.=) `+
		identifier.QuoteLiteral(slot)).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return 0, 0, err
	}
	number, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
	if err == nil {
		at, err = lsn.Parse(string(results[0].Rows[0][1]))
	}
	return uint32(number), at, err
}
