package polling

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Bug (polling): A row was read whole, whatever its length. Cost: one of hundreds of megabytes ended the process for
// lack of memory, at each start, and no line named its table.
func TestRowBeyondTheBoundStopsTheRelay(t *testing.T) {
	b := newBed(t)
	b.insert(b.conn, "k", 1)
	b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('order', 'long', 'x', to_jsonb(repeat('x', 3000000)))`)
	x := b.start(func(c *Config) { c.LongRow = 2 << 20 })
	err := <-x.end
	x.end = nil
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, "table public.outbox")
	require.ErrorContains(t, err, "window.row allows 2097152")
	where := regexp.MustCompile(`octet_length\S+ > \d+`).FindString(err.Error())
	var key string
	require.NoError(t, b.conn.QueryRow(t.Context(), "SELECT aggregate_id FROM outbox o WHERE "+where).Scan(&key))
	require.Equal(t, "long", key)

	x = b.start(func(c *Config) { c.LongRow = 4 << 20 }) // as the error says
	x.await("all is published", func() bool { return b.unpublished() == 0 })
	require.NoError(t, x.finish())
}
