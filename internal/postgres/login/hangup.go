package login

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// farewell bounds the last words to a server.
const farewell = time.Second

// Hangup says good-bye to the server and ends the connection, within a second. A connection that has failed before
// is cancelled and closed by a goroutine of pgconn, which gives the server a quarter of a minute, and reads whatever it
// sends until then. Hangup waits for that goroutine, because a process that ends in between abandons a cancel request,
// and hangs up on a server that does not answer.
func Hangup(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = conn.Close(ctx) // nothing is lost with it
	select {
	case <-conn.CleanupDone():
	case <-ctx.Done():
		_ = conn.Conn().Close()
	}
}
