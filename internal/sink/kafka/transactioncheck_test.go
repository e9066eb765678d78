package kafka

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/check"
)

// TestCheckTransactionsDisturbsNobody: the instance at work is not fenced, in the middle of a transaction neither.
func TestCheckTransactionsDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		r := newRig(t, c, exactlyOnce("a"))
		r.begin()
		for range 5 {
			r.transact(3, "t")
			findings, err := check.Transactions(t.Context(), check.Options{Cluster: r.cfg.Cluster},
				owner.ID)
			require.NoError(t, err)
			for _, f := range findings {
				require.Equal(t, preflight.OK, f.Level, "%+v", f)
			}
		}
		r.checkCommitted()
		require.Zero(t, r.id.epoch, "no new epoch was needed")
	})
}
