package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// What the coordinator committed of us, or forgot, is no other producer's work.
func TestUntouchedPositions(t *testing.T) {
	x := &transactions{committed: "ours"}
	require.True(t, x.untouched("ours"))
	require.True(t, x.untouched(""))
	require.False(t, x.untouched("another's"))
}

// A recovery waits once where the recovery before did not help; a split does not wait.
func TestRecoveryIsPaced(t *testing.T) {
	for name, test := range map[string]struct {
		redone int
		paced  bool
		cause  wire.Action
		waits  bool
	}{
		"the first":         {0, false, wire.Bump, false},
		"the second":        {1, false, wire.Bump, true},
		"it has waited":     {1, true, wire.Bump, false},
		"after a refusal":   {1, false, wire.Split, false},
		"the first refusal": {0, false, wire.Split, false},
	} {
		p, x := transacting(t)
		x.redone, x.recovery = test.redone, recovery{cause: wire.Verdict{Action: test.cause}, paced: test.paced}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wait := p.recover(ctx)
		require.Equal(t, test.waits, wait >= time.Second, name)
		require.Equal(t, test.waits || test.paced, x.recovery.paced, name)
		require.Equal(t, !test.waits, x.failures == 1, name)
	}
}

// The epoch is taken back only where the coordinator itself may have raised it, and no other producer has committed.
func TestFencesAgainOnlyItsOwn(t *testing.T) {
	expired, fencedCause := wire.VerdictOf(wire.InvalidProducerIDMapping), wire.VerdictOf(wire.ProducerFenced)
	const timeout = time.Hour
	for name, test := range map[string]struct {
		cause     wire.Verdict
		opened    time.Duration // ago; 0: not at all
		committed string        // what we left; "": what is stored
		ending    bool
		metadata  bool // of the transaction is what is stored
		code      int16
		renewed   bool
		fenced    bool
	}{
		"expired":                      {expired, 0, "", false, false, 0, true, false},
		"open for long":                {fencedCause, timeout * 4 / 5, "", false, false, 0, true, false},
		"open for a while":             {fencedCause, timeout / 2, "", false, false, 0, false, true},
		"not open":                     {fencedCause, 0, "", false, false, 0, false, true},
		"another's commit":             {expired, 0, "x", false, false, 0, false, true},
		"our own commit":               {expired, 0, "x", true, true, 0, true, false},
		"not our commit":               {expired, 0, "x", true, false, 0, false, true},
		"the same, but we did not end": {expired, 0, "x", false, true, 0, false, true},
		"the coordinator is busy":      {expired, 0, "", false, false, wire.ConcurrentTransactions, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := transactedRig(t, timeout)
				x := r.tx
				stored := x.committed
				if test.committed != "" {
					x.committed = test.committed
				}
				tx := &transaction{ending: test.ending}
				if test.metadata {
					tx.metadata = stored
				}
				if test.opened > 0 {
					tx.opened = time.Now().Add(-test.opened)
				}
				if test.code != 0 {
					answerOnce(r.cluster, kmsg.InitProducerID, test.code)
				}
				again := recovery{cause: test.cause, fenced: true}
				err := r.fenceAgain(t.Context(), tx, &again)
				var code *wire.CodeError
				require.Equal(t, test.code != 0, errors.As(err, &code))
				require.Equal(t, test.renewed, again.renewed)
				require.Equal(t, test.fenced, errors.Is(r.Producer.ended, ErrFenced))
			})
		})
	}
}

// The end of the transaction and the next epoch are asked for once, each, and only where they are missing.
func TestAsksForWhatARecoveryLacks(t *testing.T) {
	for name, test := range map[string]struct {
		r         recovery
		ends, ids int32
	}{
		"nothing is done":        {recovery{}, 1, 1},
		"it is aborted":          {recovery{aborted: true}, 0, 1},
		"the id is good":         {recovery{aborted: true, renewed: true, id: identity{1, 9}}, 0, 0},
		"fenced":                 {recovery{fenced: true, cause: wire.VerdictOf(wire.InvalidProducerIDMapping)}, 0, 1},
		"fenced, the id is good": {recovery{fenced: true, renewed: true, id: identity{1, 9}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := transactedRig(t, time.Hour)
				ends, ids := counted(r.cluster, kmsg.EndTxn), counted(r.cluster, kmsg.InitProducerID)
				require.NoError(t, r.tryRecover(t.Context(), &transaction{opened: time.Now()}, r.id, &test.r))
				require.Equal(t, []int32{test.ends, test.ids}, []int32{ends.Load(), ids.Load()})
				require.NoError(t, r.Producer.ended)
				require.Equal(t, 1, r.tx.redone)
			})
		})
	}
}

// Each answer that says that the epoch is another's leads to the question whose it is.
func TestLosesTheEpochInARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, fenced := range map[int16]bool{
			wire.InvalidProducerEpoch: true, wire.InvalidProducerIDMapping: true, wire.ProducerFenced: true,
			wire.InvalidTxnState: true, wire.ConcurrentTransactions: false,
		} {
			r := transactedRig(t, time.Hour)
			answerOnce(r.cluster, kmsg.InitProducerID, code)
			got := recovery{aborted: true}
			err := r.abort(t.Context(), &transaction{}, r.id, &got)
			require.Equal(t, fenced, err == nil)
			require.Equal(t, fenced, got.fenced)
			require.False(t, got.renewed)
		}
	})
}

// transactedRig is a producer that has committed a transaction, and has nothing to do.
func transactedRig(t *testing.T, timeout time.Duration) *rig {
	t.Helper()
	r := newRig(t, newCluster(t, kfake.SeedTopics(1, "a")), exactlyOnce("first")).start()
	r.transact(1, "a")
	r.drain()
	r.lock()
	defer r.Producer.mu.Unlock()
	r.tx.cfg.Timeout = timeout
	return r
}

// counted counts the requests of a kind, which are answered as ever.
func counted(c *kfake.Cluster, key kmsg.Key) *atomic.Int32 {
	var n atomic.Int32
	c.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// A transaction of which the end was asked for may be committed, which the stored position shows.
func TestRecoversAnUncertainEnd(t *testing.T) {
	for name, test := range map[string]struct {
		r                 recovery
		ending            bool
		ours, stored      bool // what is stored is what we left before; what the transaction carries
		committed, fenced bool
	}{
		"it was committed":           {recovery{renewed: true}, true, false, true, true, false},
		"it was not":                 {recovery{renewed: true}, true, true, false, false, false},
		"another commit":             {recovery{renewed: true}, true, false, false, false, true},
		"not ending":                 {recovery{renewed: true}, false, false, false, false, false},
		"fenced, not ending":         {recovery{renewed: true, fenced: true}, false, true, true, false, false},
		"fenced, another commit":     {recovery{renewed: true, fenced: true}, false, false, false, false, true},
		"fenced, not ending, theirs": {recovery{renewed: true, fenced: true}, false, false, true, false, true},
		"fenced, it was committed":   {recovery{renewed: true, fenced: true}, true, false, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := transactedRig(t, time.Hour)
				x := r.tx
				stored := x.committed
				if !test.ours {
					x.committed = "x"
				}
				x.live.ending, x.live.began = test.ending, time.Now()
				if test.stored {
					x.live.metadata = stored
				}
				before := testutil.ToFloat64(r.metrics.transactions.WithLabelValues("committed"))
				test.r.id = identity{r.id.id, r.id.epoch + 1}
				require.NoError(t, r.tryRecover(t.Context(), x.live, r.id, &test.r))
				committed := testutil.ToFloat64(r.metrics.transactions.WithLabelValues("committed")) - before
				require.Equal(t, test.committed, committed == 1)
				require.Equal(t, test.fenced, errors.Is(r.Producer.ended, ErrFenced))
				require.Equal(t, !test.committed && !test.fenced, x.redone == 1)
			})
		})
	}
}

// The answer to the end of a transaction decides, unless the coordinator has none open.
func TestAbortsAnEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, asks := range map[int16]int32{wire.ProducerFenced: 0, wire.InvalidTxnState: 1} {
			r := transactedRig(t, time.Hour)
			ends, ids := counted(r.cluster, kmsg.EndTxn), counted(r.cluster, kmsg.InitProducerID)
			got := recovery{cause: wire.VerdictOf(code)}
			require.NoError(t, r.abort(t.Context(), &transaction{ending: true, opened: time.Now()}, r.id, &got))
			require.Equal(t, []int32{0, asks}, []int32{ends.Load(), ids.Load()})
			require.Equal(t, asks == 0, got.fenced)
			require.Equal(t, asks == 1, got.renewed)
		}
	})
}

// What is known of the instance that took over is logged.
func TestNamesItsSuccessor(t *testing.T) {
	for name, test := range map[string]struct{ stored, want string }{
		"another":       {Stored{Position: at(9), SystemID: "1", Instance: "second"}.text(3), "second"},
		"our own words": {Stored{Position: at(9), SystemID: "1", Instance: "first"}.text(3), "committed nothing yet"},
		"nothing":       {"", "committed nothing yet"},
	} {
		core, logs := observer.New(zap.WarnLevel)
		p := still(t, exactlyOnce("first"), func(cfg *Config) { cfg.Logger = zap.New(core) })
		p.superseded(test.stored, wire.VerdictOf(wire.ProducerFenced))
		require.Contains(t, logs.All()[0].ContextMap()["reason"], test.want, name)
	}
}
