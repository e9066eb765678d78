package polling

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/pooler"
)

// pooled leads to the database through a transaction pooler with three backends.
func (b *bed) pooled() (dsn string) {
	b.Helper()
	p, err := pooler.StartPgBouncer(b.Context(), b.db.Addr(),
		pooler.Options{Mode: "transaction", Settings: map[string]string{"default_pool_size": "3"}})
	if errors.Is(err, pooler.ErrNotInstalled) {
		b.Skip(err)
	}
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close()) })
	return b.db.DSNVia(p.Addr(), b.db.Name)
}

// Through a transaction pooler everything works but the notifications, which the relay notices and replaces by polling.
func TestRelayThroughTransactionPooler(t *testing.T) {
	b := newBed(t)
	dsn := b.pooled()
	require.NoError(t, Verify(t.Context(), dsn, theSetup()))
	x := b.start(func(c *Config) { c.DSN, c.Notify = func() (string, error) { return dsn, nil }, true })
	for range 20 {
		sent := len(x.fake.sent())
		b.fillMore(200, 20) // some of it is published while the next is written
		x.await("the relay goes on", func() bool { return len(x.fake.sent()) > sent })
	}
	x.awaitPublished()
	rows := 20 * 200
	for x.logs.FilterMessageSnippet("notifications do not arrive").Len() == 0 {
		require.Less(t, rows, 10_000, "it says that notifications get lost")
		b.fillMore(20, 20) // only rows that were not announced show it
		x.awaitPublished()
		rows += 20
	}
	require.False(t, x.r.Status().Listening)
	b.fillMore(200, 20)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
	require.Len(t, x.fake.sent(), rows+200)
}

// TestItHearsItself: a session that a pooler has taken away hears nothing, whatever came with its last answer.
//
// Bug (polling): A writer's notification that came with the answer to LISTEN, which a transaction pooler lets through,
// was taken for the relay's own. Cost: it relied on notifications that did not arrive, and events came up to two
// seconds late.
func TestItHearsItself(t *testing.T) {
	b := newBed(t)
	x := b.start()
	conn, err := pgx.Connect(t.Context(), b.db.DSN)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for _, test := range []struct {
		after string
		hears bool
	}{{"SELECT 1", true}, {"UNLISTEN *", false}} {
		_, err = conn.Exec(t.Context(), "LISTEN "+Channel)
		require.NoError(t, err)
		b.db.Exec(t, "NOTIFY "+Channel)
		_, err = conn.Exec(t.Context(), test.after)
		require.NoError(t, err)
		heard, err := x.r.hearsItself(t.Context(), conn, b.db.DSN)
		require.NoError(t, err)
		require.Equal(t, test.hears, heard, test.after)
	}
	require.NoError(t, x.finish())
}

// TestAListeningRelayStopsAtOnce: no cancel request ends the wait of an idle session.
//
// Bug (polling): The end of a listener's wait was asked for with a cancel request, which an idle session does not
// notice. Cost: with `polling.notify` each stop took five seconds longer.
func TestAListeningRelayStopsAtOnce(t *testing.T) {
	b := newBed(t)
	x := b.start(func(c *Config) { c.Notify, c.DrainLimit = true, time.Hour })
	x.await("it listens", func() bool { return x.r.Status().Listening })
	require.NoError(t, x.finish(), "without the time that what is in flight has")
}
