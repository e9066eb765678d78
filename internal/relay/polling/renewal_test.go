package polling

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRenewalLeavesNoGap: while a claim is renewed, no other session gets its lane; after its end another one does.
//
// Bug (polling): A renewal ended its transaction before it claimed the lanes again. Cost: with two relays, and a Kafka
// that took longer than three seconds, the other one published what was in flight, and an old event could stay the last
// of its key.
func TestRenewalLeavesNoGap(t *testing.T) {
	t.Run("direct", func(t *testing.T) {
		b := newBed(t)
		renewsWithoutAGap(b, b.db.DSN)
	})
	t.Run("transaction pooler", func(t *testing.T) {
		b := newBed(t)
		renewsWithoutAGap(b, b.pooled())
	})
}

func renewsWithoutAGap(b *bed, dsn string) {
	b.insert(b.conn, "k", 1)
	cfg := Config{DSN: func() (string, error) { return dsn, nil }, Columns: columns(), Batch: 10}
	cfg.setDefaults()
	s := newStatements(&cfg, theTable)
	lane := laneOf([]byte("k"))
	session := func() *connection { return &connection{cfg: &cfg, made: func(bool) {}} }
	one, other := session(), session()
	defer one.close()
	defer other.close()
	got, _, err := one.claim(b.Context(), s, []int{lane}, 1)
	require.NoError(b, err)
	require.Equal(b, []int{lane}, got)

	var stop atomic.Bool
	var tries, stolen int
	var failed error
	var rival sync.WaitGroup
	rival.Go(func() {
		for !stop.Load() && failed == nil {
			var taken []int
			if taken, _, failed = other.claim(b.Context(), s, []int{lane}, 1); failed == nil {
				tries, stolen = tries+1, stolen+len(taken)
				failed = other.finish(b.Context(), s, "")
			}
		}
	})
	for range 300 {
		got, err = one.renew(b.Context(), s, "", []int{lane, (lane + 1) % Lanes})
		require.NoError(b, err)
		require.Equal(b, []int{lane, (lane + 1) % Lanes}, got)
	}
	stop.Store(true)
	rival.Wait()
	require.NoError(b, failed)
	require.Positive(b, tries)
	require.Zero(b, stolen, "of %d tries", tries)

	require.NoError(b, one.finish(b.Context(), s, ""))
	var held int
	require.NoError(b, b.conn.QueryRow(b.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&held))
	require.Zero(b, held, "locks that the session has kept")
	got, _, err = other.claim(b.Context(), s, []int{lane}, 1)
	require.NoError(b, err)
	require.Equal(b, []int{lane}, got)
}
