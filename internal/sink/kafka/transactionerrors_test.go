package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// An answer about the transaction: success, a short wait, a long one, or the end of the session.
func TestJudgesAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		code     int16
		failures int // before
		ok       bool
		lost     bool
		least    time.Duration
		most     time.Duration
		trouble  sink.TroubleKind
	}{
		"success":         {0, 5, true, false, 0, 0, ""},
		"of Produce only": {46, 0, false, false, 5 * time.Hour, 10 * time.Hour, sink.Rejected},
		"a new epoch":     {wire.InvalidProducerEpoch, 0, false, true, 0, 0, ""},
		"fenced":          {wire.ProducerFenced, 0, false, true, 0, 0, ""},
		"markers, the first": {
			wire.ConcurrentTransactions, 0, false, false, 2 * time.Millisecond, 2 * time.Millisecond, "",
		},
		"markers, the tenth": {
			wire.ConcurrentTransactions, 9, false, false, 20 * time.Millisecond, 20 * time.Millisecond, "",
		},
		"markers, the hundredth": {
			wire.CoordinatorLoading, 99, false, false, 50 * time.Millisecond, 50 * time.Millisecond, "",
		},
		"markers for long": {
			wire.CoordinatorLoading, 100, false, false, 50 * time.Millisecond, 50 * time.Millisecond, sink.NoProducerID,
		},
		"another coordinator": {
			wire.CoordinatorNotAvailable, 1, false, false, 2 * time.Second, 4 * time.Second, sink.NoProducerID,
		},
		"no right": {
			wire.GroupAuthorizationFailed, 1, false, false, 5 * time.Hour, 10 * time.Hour, sink.NotAuthorized,
		},
	} {
		p, x := transacting(t)
		x.failures = test.failures
		ok, wait := p.judge("EndTxn", "object", test.code)
		require.Equal(t, test.ok, ok, name)
		require.Equal(t, test.lost, p.ended != nil, name)
		require.GreaterOrEqual(t, wait, test.least, name)
		require.LessOrEqual(t, wait, test.most, name)
		require.Equal(t, test.trouble, x.trouble.Kind, name)
		switch {
		case test.ok:
			require.Zero(t, x.failures, name)
		case !test.lost:
			require.Equal(t, test.failures+1, x.failures, name)
		}
	}
}

func TestJudgesPartitions(t *testing.T) {
	for name, test := range map[string]struct {
		code        int16
		least, most time.Duration
		trouble     sink.TroubleKind
	}{
		"no topic": {wire.UnknownTopic, time.Second, 2 * time.Second, sink.TopicMissing},
		"no right": {wire.TopicAuthorizationFailed, 5 * time.Hour, 10 * time.Hour, sink.NotAuthorized},
	} {
		p, x := transacting(t)
		ok, wait := p.judgePartition("t", "partition t/0", test.code)
		require.False(t, ok)
		require.GreaterOrEqual(t, wait, test.least, name)
		require.LessOrEqual(t, wait, test.most, name)
		require.Equal(t, test.trouble, x.trouble.Kind, name)
		require.Equal(t, 1, x.failures, name)
	}
}

// A step that failed is tried again at once, then later; the end of Run and Abandon want nothing of it.
func TestStepsThatFail(t *testing.T) {
	cut := errors.New("cut")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		err         error
		failures    int
		over, drop  bool
		least, most time.Duration
	}{
		"the first":  {cut, 0, false, false, 1, 1},
		"the second": {cut, 1, false, false, 2 * time.Second, 4 * time.Second},
		"an answer": {
			fmt.Errorf("x: %w", &wire.CodeError{API: "EndTxn", Code: wire.ConcurrentTransactions}), 0, false, false,
			2 * time.Millisecond, 2 * time.Millisecond,
		},
		"the end":         {cut, 0, true, false, 0, 0},
		"it is abandoned": {cut, 0, false, true, 0, 0},
	} {
		p, x := transacting(t)
		x.failures, x.abandoning = test.failures, test.drop
		if test.over {
			p.ctx = ended
		}
		wait := p.stepFailed(test.err)
		require.GreaterOrEqual(t, wait, test.least, name)
		require.LessOrEqual(t, wait, test.most, name)
		require.Equal(t, !test.over && !test.drop, x.failures == test.failures+1, name)
	}
}
