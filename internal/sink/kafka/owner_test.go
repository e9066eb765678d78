package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// The steps of an owner.
func TestStepsOfAnOwner(t *testing.T) {
	for name, test := range map[string]struct {
		own   ownership
		fatal bool
		want  string
	}{
		"Begin":                  {ownership{wanted: true}, false, "fence"},
		"Begin is done":          {ownership{wanted: true, begun: true}, false, ""},
		"before Begin":           {ownership{asked: 1}, false, ""},
		"the next epoch":         {ownership{begun: true, asked: 1}, false, "renew"},
		"without a coordinator":  {ownership{begun: true, plain: true, asked: 1}, false, ""},
		"it is answered":         {ownership{begun: true, asked: 1, answered: 1}, false, ""},
		"the end":                {ownership{wanted: true}, true, ""},
		"the end of the renewal": {ownership{begun: true, asked: 1}, true, ""},
	} {
		p := still(t, owned)
		*p.own = test.own
		if test.fatal {
			p.fatal = errors.New("over")
		}
		require.Equal(t, test.want, stepName(p.nextStep()), name)
		p.ended = sink.ErrFenced
		require.Empty(t, stepName(p.nextStep()), "%s, and the session is over", name)
	}
}

// The coordinator is asked for the next epoch in time, once, and before anything is sent after a long sleep.
func TestRenewsInTime(t *testing.T) {
	now := time.Now().Round(0)
	for name, test := range map[string]struct {
		change      func(*Config)
		set         func(o *ownership)
		age         time.Duration
		asks, waits bool
		ended       error
	}{
		"fresh":              {owned, func(*ownership) {}, renewEvery, false, false, nil},
		"due":                {owned, func(*ownership) {}, renewEvery + 1, true, false, nil},
		"due, not begun":     {owned, func(o *ownership) { o.begun = false }, renewEvery + 1, false, false, nil},
		"due, fenced":        {owned, func(*ownership) {}, renewEvery + 1, false, false, sink.ErrFenced},
		"due, plain":         {owned, func(o *ownership) { o.plain = true }, renewLimit, false, false, nil},
		"due, transactions":  {exactlyOnce("x"), func(*ownership) {}, renewLimit, false, false, nil},
		"nearly outdated":    {owned, func(*ownership) {}, renewLimit - 1, true, false, nil},
		"outdated":           {owned, func(*ownership) {}, renewLimit, true, true, nil},
		"outdated, is asked": {owned, func(o *ownership) { o.asked = 1 }, renewLimit, false, true, nil},
	} {
		p := still(t, test.change)
		o := p.own
		o.begun, o.renewed = true, now.Add(-test.age)
		test.set(o)
		p.ended = test.ended
		asked := o.asked
		p.own.tick(now, p.ended)
		require.Equal(t, test.asks, o.asked == asked+1, name)
		require.Equal(t, test.asks, poked(o.wake), name)
		o.asked = asked
		require.Equal(t, test.waits, p.own.outdated(now), name)
		require.Equal(t, test.waits && asked == 0, o.asked == asked+1, name)
	}
	require.False(t, still(t).own.outdated(now), "no owner")
	for code, want := range map[int16]bool{
		wire.TransactionalIDAuthorizationFailed: true, wire.UnsupportedVersion: true, wire.InvalidRequest: true,
		wire.CoordinatorNotAvailable: false, 0: false,
	} {
		require.Equal(t, want, (&ownership{}).refuses(code), code)
	}
}
