package replication

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// shutdownAsk is how often a stream that makes no progress asks whether the server wants to shut down.
const shutdownAsk = 5 * time.Second

// shutdownWatch disconnects from a server that is shutting down while nothing can be confirmed to it. A fast shutdown
// waits for each walsender until its client has flushed all WAL (walsender.c, WalSndDone), and wal_sender_timeout does
// not end that wait for a client that sends status updates: with Kafka away, or at a halted row, Postgres would not
// stop until this process does. The stream itself does not tell (its keepalives look like any other, and a consumer
// that is stuck does not read them), but new connections are turned away with a code of their own from the first moment
// on.
type shutdownWatch struct {
	end  context.CancelFunc
	done chan struct{}
}

// start begins to watch s; knock tries to connect to its server. stop must be called.
func (w *shutdownWatch) start(s *Stream, knock func(context.Context) error) {
	ctx, end := context.WithCancel(context.Background())
	w.end, w.done = end, make(chan struct{})
	go func() {
		defer close(w.done)
		w.run(ctx, s, knock)
	}()
}

// stop ends the watch and waits for it; a watch that was never started is not an error.
func (w *shutdownWatch) stop() {
	if w.end != nil {
		w.end()
		<-w.done
	}
}

func (w *shutdownWatch) run(ctx context.Context, s *Stream, knock func(context.Context) error) {
	tick := time.NewTicker(shutdownAsk)
	defer tick.Stop()
	before := s.status.reported()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		reported := s.status.reported()
		stuck := reported == before && (reported < s.Received() || s.waiting.Load() == notWaiting)
		before = reported
		if stuck && shuttingDown(knock(ctx)) {
			s.abandon()
			return
		}
	}
}

// shuttingDown reports whether a server turns new sessions away (cannot_connect_now), which a server that is starting,
// and has no streams, does as well. The code that ends an old session (admin_shutdown) says nothing of the server: an
// operator may have ended that session alone, and a new connection shows which of the two it was.
func shuttingDown(err error) bool { return sqlstate.Of(err) == sqlstate.CannotConnectNow }

// abandon closes the connection under a consumer that may be busy elsewhere; its next Receive fails.
func (s *Stream) abandon() {
	s.interrupt(s.cfg.retry(errors.New("the server is shutting down")))
	s.deadline.Lock()
	defer s.deadline.Unlock()
	if s.finishing {
		return // Finish has a limit of its own
	}
	s.cfg.Logger.Warn("the server is shutting down, and not everything is confirmed: disconnecting from it",
		zap.Stringer(logkey.LSN, s.status.reported()))
	_ = s.conn.Close() // once more in close
}

// knock opens a connection to the same server and closes it again.
func (c *connection) knock(ctx context.Context) error {
	pc := c.config.Copy()
	delete(pc.RuntimeParams, "replication") // max_wal_senders must not decide
	ctx, cancel := context.WithTimeout(ctx, shutdownAsk)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, pc)
	if err != nil {
		return err
	}
	login.Hangup(conn)
	return nil
}
