package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// cancelDelay is how long a cancelled statement may take to end before its connection is given up.
	cancelDelay = 5 * time.Second
	// cancelArrival is how long a request that the server has answered may still take to reach its session. The next
	// statement waits for so long, because the request would cancel that statement.
	cancelArrival = 100 * time.Millisecond
)

// canceller cancels the running statement on the server when its context ends, and waits until the server has taken the
// request, also where the statement has ended in the meantime. pgconn's own handler closes the request's connection
// then, and PgBouncer before 1.19.1 ends, with all of its clients, if a client leaves before its request has been
// passed on (pgbouncer issue 801).
type canceller struct {
	conn *pgconn.PgConn
	done chan struct{} // closed when the request has been dealt with
}

// HandleCancel sends the request. It is called before HandleUnwatchAfterCancel, once for each context that ends.
func (c *canceller) HandleCancel(context.Context) {
	c.done = make(chan struct{})
	deadline := time.Now().Add(cancelDelay)
	_ = c.conn.Conn().SetDeadline(deadline)
	go func() {
		defer close(c.done)
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		_ = c.conn.CancelRequest(ctx) // the statement's own deadline is the other way out
		time.Sleep(cancelArrival)
	}()
}

// HandleUnwatchAfterCancel waits for the request, for cancelDelay at most. A session that broke meanwhile is being
// closed by a goroutine of pgconn, and then the deadline bounds that.
func (c *canceller) HandleUnwatchAfterCancel() {
	<-c.done
	if !c.conn.IsClosed() {
		_ = c.conn.Conn().SetDeadline(time.Time{})
	}
}
