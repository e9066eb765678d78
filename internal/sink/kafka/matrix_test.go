package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// The matrix: every code of the verdict table, and some that are not in it, in both modes, at each place. A new row of
// the table is in here automatically.

// everyCode is the table's failures and codes that it does not know; with -short one for each action.
func everyCode() []int16 {
	codes := append(slices.Collect(maps.Keys(wire.Verdicts)), -1, 4, 30000)
	slices.Sort(codes)
	seen := map[wire.Action]bool{}
	return slices.DeleteFunc(codes, func(code int16) bool {
		a := wire.VerdictOf(code).Action
		again := seen[a] && testing.Short() // one of each kind
		seen[a] = true
		return again || code == 0
	})
}

// outcome is what the log, and the producer, must be like after a fault.
type outcome int

const (
	exact   outcome = iota // the log is the input
	rewinds                // what was in doubt is there twice, as a contiguous rewind: the broker lost the sequence
	stopped                // Run ended with an error for the operator; what was acknowledged is in the log
	fenced                 // nothing more is sent before the next Begin; what was acknowledged is in the log
)

// produceOutcome: which faults of a Produce answer have which outcome. With transactions what would be a repeat is an
// abort.
func produceOutcome(mode string, v wire.Verdict, appended bool) outcome {
	switch {
	case mode == "transactions" && (v.Code == wire.ProducerFenced || v.Code == wire.InvalidProducerEpoch):
		return fenced
	case mode == "transactions":
		return exact
	case mode == "owned" && (v.Action == wire.Fenced || v.Code == wire.InvalidProducerEpoch):
		return fenced
	case v.Action == wire.Fenced:
		return stopped
	case appended && (v.Action == wire.Bump || v.Action == wire.Renew || v.Action == wire.Split):
		return rewinds // the code denies what has happened
	}
	return exact
}

// TestMatrixProduce: each code instead of the append, and instead of the answer after the append, for the first, the
// middle and the last of five requests in flight.
func TestMatrixProduce(t *testing.T) {
	for mode, change := range modes {
		for _, code := range everyCode() {
			for _, appended := range []bool{false, true} {
				v := wire.VerdictOf(code)
				if v.Action == wire.Done && !appended {
					continue // to say "done" of what is not would be a broker's lie
				}
				t.Run(fmt.Sprintf("%s/%s/appended %t", mode, v.Name, appended), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						want := produceOutcome(mode, v, appended)
						r := matrixRig(t, change)
						for i, n := range []int32{1, 3, 5} {
							if i > 0 && want >= stopped {
								r.judge(want, v)
								r = matrixRig(t, change)
							}
							r.strikeProduce(code, appended, n)
							if want < stopped {
								r.drain()
							}
						}
						r.judge(want, v)
					})
				})
			}
		}
	}
}

// matrixRig makes requests of one small batch each.
func matrixRig(t *testing.T, change ...func(*Config)) *rig {
	d := newFaultDial()
	r := onePartition(t, append(change, func(cfg *Config) { cfg.Dial = d.dial })...).start()
	r.dial, r.policy = d, waits
	r.fill(1)
	r.drain()
	return r
}

// fill produces without an end of an upstream transaction in between, so that nothing is sealed before it is in flight.
// It ends early where Run has ended.
func (r *rig) fill(n int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	for range n {
		r.ticket++
		value := fmt.Sprintf("k:%08d", r.ticket)
		err := r.give(ctx, &router.Record{Topic: "t", Key: []byte("k"), Value: []byte(value)})
		if err != nil {
			r.ticket--
			if !errors.Is(err, sink.ErrFenced) {
				require.Equal(r.t, fault.Operator, fault.KindOf(err))
			}
			return
		}
		r.sent["t"] = append(r.sent["t"], value)
	}
	r.whole()
}

// strikeProduce produces while the n-th of five requests in flight is answered with the code.
func (r *rig) strikeProduce(code int16, appended bool, n int32) {
	r.t.Helper()
	at := r.gate(5)
	hits := r.dial.count
	if appended {
		r.dial.arm(replaceAnswer, int(n), code)
	} else {
		h := r.cluster.Fault(produceFault(code, func() bool { return at.Load() == n }))
		hits = h.Hits
	}
	before := hits()
	r.fill(60)
	require.Eventually(r.t, func() bool { return hits() == before+1 }, testPatience, testTick)
}

// judge waits for the outcome.
func (r *rig) judge(want outcome, v wire.Verdict) {
	r.t.Helper()
	switch want {
	case exact, rewinds:
		r.drain()
		require.Empty(r.t, r.Trouble())
		r.checkAcks()
		if want == exact {
			require.Equal(r.t, r.sent["t"], r.log("t", len(r.sent["t"])))
		} else {
			r.checkRewinds()
		}
	case stopped:
		var err error
		select {
		case err = <-r.ended:
		case <-time.After(testPatience):
			require.Fail(r.t, "it goes on", "trouble: %+v", r.Trouble())
		}
		require.Equal(r.t, fault.Operator, fault.KindOf(err))
		require.ErrorContains(r.t, err, v.Name)
		require.Equal(r.t, err, r.Drain(context.Background()), "who waits gets the same error")
		r.checkStopped()
	case fenced:
		ctx, cancel := context.WithTimeout(r.t.Context(), testPatience)
		defer cancel()
		require.ErrorIs(r.t, r.Drain(ctx), sink.ErrFenced, "trouble: %+v", r.Trouble())
		require.EqualValues(r.t, 1, testutil.ToFloat64(r.metrics.fenced))
		r.checkStopped()
		r.beginAgain()
	}
}

// beginAgain abandons and begins: what was not acknowledged is produced again, and the log ends with all of the input.
func (r *rig) beginAgain() {
	r.t.Helper()
	r.mu.Lock()
	acked := len(r.acked)
	r.mu.Unlock()
	all := r.sent["t"]
	require.Equal(r.t, len(all)-acked, r.Abandon().Records)
	r.given = nil
	r.begin()
	r.ticket, r.sent["t"] = uint64(acked), all[:acked:acked]
	r.fill(len(all) - acked)
	r.drain()
	r.mu.Lock()
	require.Len(r.t, r.acked, len(all))
	r.mu.Unlock()
	log := r.log("t", len(all))
	require.Equal(r.t, all[acked:], log[len(log)-(len(all)-acked):])
}

// checkStopped: the log is the beginning of the input, in order, each once, and holds what was acknowledged.
func (r *rig) checkStopped() {
	r.t.Helper()
	r.mu.Lock()
	acked := len(r.acked)
	for ticket := range r.acked {
		require.LessOrEqual(r.t, int(ticket), acked, "acknowledged in order")
	}
	r.mu.Unlock()
	log := r.log("t", acked)
	require.GreaterOrEqual(r.t, len(log), acked)
	require.LessOrEqual(r.t, len(log), len(r.sent["t"]))
	require.Equal(r.t, r.sent["t"][:len(log)], log)
}

// TestMatrixTransactions: each code for each request of a transaction, instead of the work or instead of the answer
// after it. Whether the transaction was committed all the same is in the position that the next Begin reads.
//
// Bug (producer): DUPLICATE_SEQUENCE_NUMBER in the answer to a request of a transaction was accepted as success. Cost:
// none seen: no broker answers so; the position could have been lost.
func TestMatrixTransactions(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		for _, code := range everyCode() {
			for _, applied := range []bool{false, true} {
				v := wire.VerdictOf(code)
				t.Run(fmt.Sprintf("%s/%s/applied %t", key.Name(), v.Name, applied), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						r := matrixRig(t, exactlyOnce("first"))
						hits := answer(t, r.cluster, key, code, applied)
						r.fill(60)
						want := exact
						if code == wire.ProducerFenced || code == wire.InvalidProducerEpoch {
							want = fenced
						}
						r.judge(want, v)
						require.EqualValues(t, 1, hits.Load())
						if key != kmsg.EndTxn {
							redone := 0.0
							if v.Action == wire.Bump || v.Action == wire.Renew || v.Action == wire.Fenced {
								redone = 1
							}
							aborted := r.metrics.transactions.WithLabelValues("aborted")
							require.Equal(t, redone, testutil.ToFloat64(aborted))
						}
					})
				})
			}
		}
	}
}

// TestMatrixBegin: each code before the first transaction, and for the coordinator's address in the middle of one.
func TestMatrixBegin(t *testing.T) {
	for _, code := range everyCode() {
		t.Run(wire.VerdictOf(code).Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(1, "t"))
				asked := answer(t, c, kmsg.FindCoordinator, code, false)
				initialized := answer(t, c, kmsg.InitProducerID, code, false)
				r := newRig(t, c, exactlyOnce("first")).start()
				require.EqualValues(t, 1, asked.Load())
				require.EqualValues(t, 1, initialized.Load())
				r.fill(10)
				r.drain()
				answer(t, c, kmsg.AddPartitionsToTxn, 16, false) // the coordinator has moved
				asked = answer(t, c, kmsg.FindCoordinator, code, false)
				r.fill(10)
				r.judge(exact, wire.Verdict{})
				require.EqualValues(t, 1, asked.Load())
			})
		})
	}
}

const lostAnswer = -1000

// oldClient is as old as what we speak: since version 5 of EndTxn (KIP-890) a commit raises the epoch.
func oldClient(t testing.TB, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	client, err := newClient(c.ListenAddrs(),
		kgo.MaxVersions(kversion.V3_6_0()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// answer answers the next request of the key with the code, after the work where applied says so. lostAnswer cuts the
// connection.
func answer(t testing.TB, c *kfake.Cluster, key kmsg.Key, code int16, applied bool) *atomic.Int32 {
	t.Helper()
	var hits atomic.Int32
	behind := oldClient(t, c)
	var inner atomic.Bool
	c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if inner.Load() {
			return nil, nil, false
		}
		res := refusalOf(req, code) // before the other client puts its own version in
		if applied {
			inner.Store(true)
			c.KeepControl()
			c.SleepControl(func() {
				if _, err := behind.Request(context.Background(), req); err != nil {
					t.Errorf("%s: %v", key.Name(), err)
				}
			})
			c.DropControl()
		}
		hits.Add(1)
		if code == lostAnswer {
			return nil, &kerr.Error{Message: "cut"}, true
		}
		return res, nil, true
	})
	return &hits
}
