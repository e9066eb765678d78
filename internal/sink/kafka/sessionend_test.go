package kafka

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// An epoch that is refused is another instance's work with a transactional id, but for a transaction that may have
// timed out. Everything else ends the session. A producer id of no use is not used again.
func TestLosesTheSession(t *testing.T) {
	const timeout = time.Hour
	for name, test := range map[string]struct {
		change func(*Config)
		code   int16
		opened time.Duration // ago; 0: not at all
		want   error
		id     bool // it is still good
	}{
		"transactions, fenced":    {exactlyOnce("x"), wire.ProducerFenced, 0, sink.ErrFenced, true},
		"transactions, old epoch": {exactlyOnce("x"), wire.InvalidProducerEpoch, 0, sink.ErrFenced, true},
		"open for a while":        {exactlyOnce("x"), wire.ProducerFenced, timeout / 2, sink.ErrFenced, true},
		"open long":               {exactlyOnce("x"), wire.ProducerFenced, 3 * timeout / 4, sink.ErrSessionOver, true},
		"open long, old epoch":    {exactlyOnce("x"), wire.InvalidProducerEpoch, timeout, sink.ErrSessionOver, true},
		"the id has expired":      {exactlyOnce("x"), wire.InvalidProducerIDMapping, 0, sink.ErrSessionOver, true},
		"another transaction":     {exactlyOnce("x"), wire.InvalidTxnState, 0, sink.ErrSessionOver, true},
		"transactions, sequence":  {exactlyOnce("x"), 45, 0, sink.ErrSessionOver, true},
		"sequence":                {owned, 45, 0, sink.ErrSessionOver, true},
		"sequence, no owner":      {func(*Config) {}, 45, 0, sink.ErrSessionOver, true},
		"old epoch, no owner":     {func(*Config) {}, wire.InvalidProducerEpoch, 0, sink.ErrSessionOver, false},
		"unknown producer, alone": {func(*Config) {}, 59, 0, sink.ErrSessionOver, true},
		"id has expired, alone":   {func(*Config) {}, wire.InvalidProducerIDMapping, 0, sink.ErrSessionOver, false},
	} {
		t.Run(name, func(t *testing.T) {
			var ended []error
			p := still(t, test.change, func(cfg *Config) {
				cfg.Ended = func(why error) { ended = append(ended, why) }
			})
			if p.tx != nil {
				p.tx.cfg.Timeout = timeout
				if test.opened > 0 {
					p.tx.live.opened = time.Now().Add(-test.opened)
				}
			}
			p.lose("partition t/1", wire.VerdictOf(test.code))
			p.lose("partition t/2", wire.VerdictOf(test.code))
			require.Len(t, ended, 1, "once")
			require.ErrorIs(t, ended[0], test.want)
			require.Equal(t, test.id, p.id.valid())
			require.False(t, p.sending())
			lost, fenced := 0.0, 1.0
			if test.want == sink.ErrSessionOver { //nolint:errorlint // the table's own
				lost, fenced = 1, 0
				require.ErrorContains(t, ended[0], "partition t/1: "+wire.VerdictOf(test.code).Name)
			}
			require.InDelta(t, lost, testutil.ToFloat64(p.metrics.epochBumps), 0)
			require.InDelta(t, fenced, testutil.ToFloat64(p.metrics.fenced), 0)
		})
	}
}

// What Abandon leaves: nothing of the session before but a producer id with a newer epoch, so that batches on the wire
// do not land after the next ones; where that is the coordinator's, or there is none, another id is asked for.
func TestForgetsTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*Config)
		plain    bool
		id, want identity
	}{
		"no owner":                {func(*Config) {}, false, identity{1, 4}, identity{1, 5}},
		"no owner, none":          {func(*Config) {}, false, noIdentity, noIdentity},
		"no owner, used up":       {func(*Config) {}, false, identity{1, maxEpoch}, noIdentity},
		"without the coordinator": {owned, true, identity{1, 4}, identity{1, 5}},
		"the coordinator's":       {owned, false, identity{1, 4}, noIdentity},
		"transactions":            {exactlyOnce("x"), false, identity{1, 4}, noIdentity},
	} {
		p := still(t, test.change)
		if p.own != nil {
			p.own.plain = test.plain
		}
		p.id, p.ended = test.id, sink.ErrSessionOver
		if p.tx != nil {
			p.tx.live.opened = time.Now()
		}
		p.forget()
		require.Equal(t, test.want, p.id, name)
		require.NoError(t, p.ended, name)
		require.Equal(t, test.want == noIdentity && !p.own.fences(), poked(p.control.wake), name)
		aborted := testutil.ToFloat64(p.metrics.transactions.WithLabelValues("aborted"))
		require.Equal(t, p.tx != nil, aborted == 1, name)
		if p.tx != nil {
			require.Zero(t, p.tx.live.opened)
		}
	}
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
