package kafka

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// What flies is forgotten with its connection; a connection on which nothing flies stays.
func TestForgetsWhatFlies(t *testing.T) {
	b := &broker{}
	cut := connect(b)
	b.forgetFlying()
	require.NotNil(t, b.conn)
	require.NoError(t, *cut)
	b.inflight = []*request{{}}
	b.forgetFlying()
	require.Nil(t, b.conn)
	require.ErrorIs(t, *cut, errAbandoned)
	require.Empty(t, b.inflight)
	b.inflight = []*request{{}}
	b.forgetFlying()
	require.Empty(t, b.inflight, "its connection broke before")
}

// Abandon ends the step that is under way, where there is one.
func TestAbandonEndsTheStep(t *testing.T) {
	for _, stepping := range []bool{true, false} {
		core, logs := observer.New(zap.InfoLevel)
		p := still(t, owned, func(cfg *Config) { cfg.Logger = zap.New(core) })
		p.started = true
		ended := false
		if stepping {
			p.own.cancelStep = func() { ended = true }
			keyed(p.partitions(1)[0], "a", "b")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-p.own.wake
			p.mu.Lock()
			defer p.mu.Unlock()
			p.forget()
		}()
		generation := p.generation
		require.Zero(t, still(t, owned).Abandon(), "it does not run")
		dropped := p.Abandon()
		<-done
		require.Equal(t, stepping, ended)
		require.NotEqual(t, generation, p.generation)
		if stepping {
			require.Equal(t, 2, dropped.Records)
			require.Equal(t, 1, logs.FilterMessageSnippet("are given up").Len())
		} else {
			require.Zero(t, logs.Len())
		}
	}
}

// Without the right, or with an old broker, plain ids are used at once; without a coordinator only after a while.
func TestSettlesForPlain(t *testing.T) {
	const patience = time.Minute
	code := func(c int16) error { return fmt.Errorf("wrapped: %w", &wire.CodeError{API: "InitProducerID", Code: c}) }
	for name, test := range map[string]struct {
		err     error
		wanted  bool
		missing time.Duration // for how long the coordinator has been missing; 0: it is not
		want    bool
		counts  bool // afterwards the coordinator is missing
	}{
		"refused":             {code(wire.TransactionalIDAuthorizationFailed), true, 0, true, false},
		"refused, not wanted": {code(wire.TransactionalIDAuthorizationFailed), false, 0, false, false},
		"too old":             {&wire.NotOfferedError{}, true, 0, true, false},
		"another error":       {errors.New("cut"), true, 0, false, false},
		"missing":             {code(wire.CoordinatorNotAvailable), true, 0, false, true},
		"missing for a while": {code(wire.CoordinatorNotAvailable), true, patience / 2, false, true},
		"missing for long":    {code(wire.CoordinatorNotAvailable), true, patience, true, true},
		"another code":        {code(wire.ConcurrentTransactions), true, patience, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, owned, func(cfg *Config) { cfg.pace.coordinator = patience })
			p.own.wanted = test.wanted
			if test.missing > 0 {
				p.own.unavailable = time.Now().Add(-test.missing)
			}
			require.Equal(t, test.want, p.settlesForPlain(test.err), name)
			require.Equal(t, test.want, p.own.plain, name)
			require.Equal(t, test.counts, !p.own.unavailable.IsZero(), name)
		})
	}
}
