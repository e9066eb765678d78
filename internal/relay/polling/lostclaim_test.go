package polling

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// flakyClaims loses the connection at the first marks, and notes what it is asked for.
type flakyClaims struct {
	lost  int
	asked []string
}

func (c *flakyClaims) finish(context.Context, *statements, string) error {
	c.asked = append(c.asked, "mark")
	if c.lost > 0 {
		c.lost--
		return errLost
	}
	return nil
}

func (c *flakyClaims) renew(_ context.Context, _ *statements, marks string, want []int) ([]int, error) {
	c.asked = append(c.asked, fmt.Sprint("claim ", want, marks))
	return want, nil
}

func (*flakyClaims) claim(context.Context, *statements, []int, int) ([]int, bool, error) {
	return nil, false, nil
}

func (*flakyClaims) read(context.Context, *statements, []int, int, int, *pgoutput.Relation, *batch) error {
	return nil
}

func (*flakyClaims) close() {}

// What is in Kafka and not marked looks unpublished to every other process. A worker that has lost its claim with the
// connection makes it again before it marks, each time, of the lanes that have something to mark.
func TestALostClaimIsMadeAgainBeforeMarking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Relay{
			cfg: Config{Columns: columns(), Metrics: modelMetrics, Workers: 1, Batch: 10}, log: zap.NewNop(),
			stopping: make(chan struct{}), state: relay.State{Name: relay.Starting},
		}
		s := &source{statements: newStatements(&r.cfg, theTable)}
		w := newWorker(r, 0, oneRouter{})
		conn := &flakyClaims{lost: 2}
		w.conn = conn
		for i, state := range []rowState{settled, settled, marked, settled} {
			row := batchRow{lane: []int{3, 3, 4, 5}[i], seq: int64(i), part: []byte("1"), tid: []byte("(0,1)")}
			w.batch.add(row, nil)
			w.batch.rows[i].state = state
		}
		began := time.Now()
		require.NoError(t, w.finishClaim(t.Context(), s))
		require.Equal(t, []string{"mark", "claim [3 5]", "mark", "claim [3 5]", "mark"}, conn.asked)
		require.Empty(t, w.batch.unmarked())
		require.Positive(t, time.Since(began), "it does not hurry")
	})
}
