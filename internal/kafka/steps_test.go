package kafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// poked reports whether the channel had something, and takes it out.
func poked(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// transacting is a still producer whose transaction has begun.
func transacting(t *testing.T) (*Producer, *transactions) {
	t.Helper()
	p := still(t, exactlyOnce("first"))
	p.own.begun, p.ctx = true, t.Context()
	return p, p.tx
}

// A transaction ends where the caller waits, or at a mark when it is large, old, or nothing more comes.
func TestWhenATransactionEnds(t *testing.T) {
	const interval, third, size = 50 * time.Millisecond, 20 * time.Second, int64(4 << 20)
	for name, test := range map[string]struct {
		hurry, boundary, flushed bool
		bytes                    int64
		records                  uint64
		age, sealed              time.Duration // since its first record, and since the last end
		ends, timer              bool
	}{
		"hurried":                       {true, false, false, 1, 1, 0, 0, true, false},
		"hurried and empty":             {true, false, false, 0, 0, 0, 0, false, false},
		"no mark":                       {false, false, true, size, 1, interval, time.Hour, false, false},
		"no mark for long":              {false, false, false, 1, 1, third, 0, true, false},
		"no mark, nearly":               {false, false, false, 1, 1, third - 1, 0, false, false},
		"large":                         {false, true, false, size, 1, 0, 0, true, false},
		"not so large":                  {false, true, false, size - 1, 1, 0, 0, false, false},
		"flushed alone":                 {false, true, true, 1, 1, 0, interval, true, false},
		"flushed soon after":            {false, true, true, 1, 1, 0, interval - 1, false, true},
		"old":                           {false, true, false, 1, 1, interval, 0, true, false},
		"not so old":                    {false, true, false, 1, 1, interval - 1, 0, false, false},
		"old, but flushed soon after":   {false, true, true, 1, 1, interval, 1, false, true},
		"marked, without a record":      {false, true, true, 0, 0, 0, time.Hour, false, false},
		"large and flushed soon after":  {false, true, true, size, 1, 0, 1, true, false},
		"hurried, flushed soon after":   {true, true, true, 1, 1, 0, 1, true, false},
		"no mark for long, and flushed": {false, false, true, 1, 1, third, 0, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, x := transacting(t)
			part := p.partitions(1)[0]
			part.open = newBatch(part)
			now := time.Now()
			x.hurry, x.boundary, p.flushed = test.hurry, test.boundary, test.flushed
			x.live.bytes, x.live.records, x.live.began = test.bytes, test.records, now.Add(-test.age)
			x.live.parts = []*partition{part}
			x.sealedAt = now.Add(-test.sealed)
			live := x.live
			p.trySeal(now)
			require.Equal(t, test.ends, live.sealed, name)
			require.Equal(t, test.ends, x.filling != live, name)
			require.Equal(t, test.ends, part.open == nil, name)
			require.Equal(t, test.timer, x.timer, name)
			if test.timer {
				require.Equal(t, x.sealedAt.Add(interval), x.sealAt, name)
			}
			if test.ends {
				require.Regexp(t, `"transaction":1\b`, live.metadata, name)
				require.Equal(t, now, x.sealedAt)
				require.False(t, x.hurry, name)
				x.hurry = true
				x.filling.records = 1
				p.trySeal(now)
				require.False(t, x.filling.sealed, "not before the live one has ended")
			}
		})
	}
}

// The clock ends a transaction at the time that was set, and looks at it at each tick otherwise.
func TestTransactionsByTheClock(t *testing.T) {
	now := time.Now()
	soon, late := now.Add(time.Second), now.Add(time.Hour)
	for name, test := range map[string]struct {
		timer bool
		at    time.Time
		ends  bool
		next  time.Time
	}{
		"no timer":        {false, soon, true, late},
		"not yet":         {true, soon, false, soon},
		"it is time":      {true, now, true, late},
		"it was time":     {true, now.Add(-1), true, late},
		"no timer at all": {false, time.Time{}, true, late},
	} {
		p, x := transacting(t)
		x.timer, x.sealAt, x.hurry, x.live.records = test.timer, test.at, true, 1
		live := x.live
		require.Equal(t, test.next, p.tickTransaction(now, late), name)
		require.Equal(t, test.ends, live.sealed, name)
	}
	require.Equal(t, late, still(t).tickTransaction(now, late), "no transactions")
}

// Full ends a transaction between two marks only where nothing else makes room.
func TestFullEndsWhatItMust(t *testing.T) {
	for name, test := range map[string]struct {
		boundary, sealed bool
		unacked, live    uint64
		commits          bool
	}{
		"at a mark":                   {true, false, 9, 3, true},
		"all of it is the live one's": {false, false, 3, 3, true},
		"there is more":               {false, false, 4, 3, false},
		"another one ends":            {false, true, 3, 3, false},
		"another one ends, at a mark": {true, true, 3, 3, true},
	} {
		p, x := transacting(t)
		x.boundary, x.live.records, x.live.began = test.boundary, test.live, time.Now()
		if test.sealed {
			x.filling = &transaction{}
		}
		p.acked, p.produced = 10, 10+test.unacked
		sealing := x.filling
		p.Full()
		require.Equal(t, test.commits, x.hurry || sealing.sealed, name)
		require.True(t, p.flushed)
	}
	p := still(t)
	p.Full()
	p.Mark()
	require.True(t, p.flushed)
	q, x := transacting(t)
	q.Mark()
	require.True(t, x.boundary)
}

func TestRecordsOfATransaction(t *testing.T) {
	p, x := transacting(t)
	part := p.partitions(1)[0]
	rec := &router.Record{Value: []byte("12345")}
	x.boundary, x.hurry = true, true
	x.add(part, rec, at(7))
	began := x.live.began
	require.False(t, began.IsZero())
	require.True(t, poked(x.wake), "the partition is to be named to the coordinator")
	x.live.began = began.Add(-time.Hour)
	x.add(part, rec, at(8))
	require.Equal(t, began.Add(-time.Hour), x.live.began)
	require.Equal(t, []any{uint64(2), int64(2 * rec.Size()), at(8), 1, 1, false, false}, []any{
		x.live.records, x.live.bytes, x.live.last, len(x.live.parts), len(x.live.unadded), x.boundary, x.hurry,
	})
	require.False(t, poked(x.wake))
	x.filling = &transaction{}
	x.add(part, rec, at(9))
	require.False(t, poked(x.wake), "it is not live")
	require.Equal(t, []*partition{part}, x.filling.unadded)

	for name, test := range map[string]struct {
		sealed bool
		acked  uint64
		wakes  bool
	}{"the last": {true, 2, true}, "one more": {true, 1, false}, "not sealed": {false, 2, false}} {
		x.live = &transaction{records: 3, acked: test.acked, sealed: test.sealed}
		p.hold(&batch{part: part, tx: x.live, records: 1})
		require.Equal(t, test.wakes, poked(x.wake), name)
		require.Equal(t, test.acked+1, x.live.acked)
	}
}

// stepName is the method's.
func stepName(step func(context.Context) time.Duration) string {
	if step == nil {
		return ""
	}
	name := runtime.FuncForPC(reflect.ValueOf(step).Pointer()).Name()
	return strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")
}

// The steps of a transaction, in their order.
func TestStepsOfATransaction(t *testing.T) {
	part := []*partition{{}}
	for name, test := range map[string]struct {
		set  func(p *Producer, live *transaction)
		want string
	}{
		"nothing": {func(*Producer, *transaction) {}, ""},
		"a new partition": {func(_ *Producer, l *transaction) { l.parts, l.unadded, l.sealed = part, part, true },
			"addPartitions"},
		"partitions are added": {func(_ *Producer, l *transaction) { l.parts = part }, "addOffsets"},
		"a mark alone":         {func(_ *Producer, l *transaction) { l.sealed = true }, "addOffsets"},
		"offsets are added":    {func(_ *Producer, l *transaction) { l.parts, l.offsetsAdded = part, true }, ""},
		"sealed": {
			func(_ *Producer, l *transaction) { l.sealed, l.offsetsAdded, l.records = true, true, 1 }, "commitPosition",
		},
		"positioned, one is out": {func(_ *Producer, l *transaction) {
			l.sealed, l.offsetsAdded, l.positioned, l.records = true, true, true, 1
		}, ""},
		"all is in": {
			func(_ *Producer, l *transaction) {
				l.sealed, l.offsetsAdded, l.positioned = true, true, true
			}, "endTransaction",
		},
		"not sealed, all is in": {
			func(_ *Producer, l *transaction) { l.offsetsAdded, l.positioned = true, true }, "",
		},
		"recovering":            {func(p *Producer, _ *transaction) { p.restarting = true }, "recover"},
		"recovering, one flies": {func(p *Producer, _ *transaction) { p.restarting, p.flying = true, 1 }, ""},
	} {
		p, x := transacting(t)
		test.set(p, x.live)
		require.Equal(t, test.want, stepName(p.nextStep()), name)
	}
}

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
		"fenced":                 {ownership{wanted: true, fenced: true}, false, ""},
		"the end":                {ownership{wanted: true}, true, ""},
		"the end of the renewal": {ownership{begun: true, asked: 1}, true, ""},
	} {
		p := still(t, owned)
		*p.own = test.own
		if test.fatal {
			p.fatal = errors.New("over")
		}
		require.Equal(t, test.want, stepName(p.nextStep()), name)
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
	}{
		"fresh":              {owned, func(*ownership) {}, renewEvery, false, false},
		"due":                {owned, func(*ownership) {}, renewEvery + 1, true, false},
		"due, not begun":     {owned, func(o *ownership) { o.begun = false }, renewEvery + 1, false, false},
		"due, fenced":        {owned, func(o *ownership) { o.fenced = true }, renewEvery + 1, false, false},
		"due, plain":         {owned, func(o *ownership) { o.plain = true }, renewLimit, false, false},
		"due, transactions":  {exactlyOnce("x"), func(*ownership) {}, renewLimit, false, false},
		"nearly outdated":    {owned, func(*ownership) {}, renewLimit - 1, true, false},
		"outdated":           {owned, func(*ownership) {}, renewLimit, true, true},
		"outdated, is asked": {owned, func(o *ownership) { o.asked = 1 }, renewLimit, false, true},
	} {
		p := still(t, test.change)
		o := p.own
		o.begun, o.renewed = true, now.Add(-test.age)
		test.set(o)
		asked := o.asked
		p.tickOwner(now)
		require.Equal(t, test.asks, o.asked == asked+1, name)
		require.Equal(t, test.asks, poked(o.wake), name)
		o.asked = asked
		require.Equal(t, test.waits, p.outdated(now), name)
		require.Equal(t, test.waits && asked == 0, o.asked == asked+1, name)
	}
	require.False(t, still(t).outdated(now), "no owner")
	for code, want := range map[int16]bool{
		wire.TransactionalIDAuthorizationFailed: true, wire.UnsupportedVersion: true, wire.InvalidRequest: true,
		wire.CoordinatorNotAvailable: false, 0: false,
	} {
		require.Equal(t, want, (&ownership{}).refuses(code), code)
	}
}

// An answer about the transaction: success, a short wait, a long one, or the recovery.
func TestJudgesAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		code     int16
		failures int // before
		ok       bool
		lost     bool
		least    time.Duration
		most     time.Duration
		trouble  wire.TroubleKind
	}{
		"success":         {0, 5, true, false, 0, 0, ""},
		"of Produce only": {46, 0, false, false, 5 * time.Hour, 10 * time.Hour, wire.Rejected},
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
			wire.CoordinatorLoading, 100, false, false, 50 * time.Millisecond, 50 * time.Millisecond, wire.NoProducerID,
		},
		"another coordinator": {
			wire.CoordinatorNotAvailable, 1, false, false, 2 * time.Second, 4 * time.Second, wire.NoProducerID,
		},
		"no right": {
			wire.GroupAuthorizationFailed, 1, false, false, 5 * time.Hour, 10 * time.Hour, wire.NotAuthorized,
		},
	} {
		p, x := transacting(t)
		x.failures = test.failures
		ok, wait := p.judge("EndTxn", "object", test.code)
		require.Equal(t, test.ok, ok, name)
		require.Equal(t, test.lost, p.restarting, name)
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
		trouble     wire.TroubleKind
	}{
		"no topic": {wire.UnknownTopic, time.Second, 2 * time.Second, wire.TopicMissing},
		"no right": {wire.TopicAuthorizationFailed, 5 * time.Hour, 10 * time.Hour, wire.NotAuthorized},
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

// A mark that no record takes along is kept by a transaction of its own, after a while.
func TestKeepsAMarkAlone(t *testing.T) {
	now := time.Now()
	late, again := now.Add(time.Hour), now.Add(markQuiet)
	for name, test := range map[string]struct {
		set   func(p *Producer, x *transactions)
		next  time.Time
		quiet time.Time
		ends  bool
	}{
		"it is time":   {func(*Producer, *transactions) {}, late, time.Time{}, true},
		"none waits":   {func(_ *Producer, x *transactions) { x.quiet = time.Time{} }, late, time.Time{}, false},
		"kept already": {func(_ *Producer, x *transactions) { x.kept = 7 }, late, time.Time{}, false},
		"not yet": {
			func(_ *Producer, x *transactions) { x.quiet = now.Add(1) }, now.Add(1), now.Add(1), false,
		},
		"not begun":         {func(p *Producer, _ *transactions) { p.own.begun = false }, again, again, false},
		"fenced":            {func(p *Producer, _ *transactions) { p.own.fenced = true }, again, again, false},
		"recovering":        {func(p *Producer, _ *transactions) { p.restarting = true }, again, again, false},
		"another one ends":  {func(_ *Producer, x *transactions) { x.filling = &transaction{} }, again, again, false},
		"there are records": {func(_ *Producer, x *transactions) { x.live.records = 1 }, again, again, false},
	} {
		p, x := transacting(t)
		x.mark.Writes, x.kept, x.quiet, x.latest = 7, 6, now, at(5)
		test.set(p, x)
		live := x.live
		require.Equal(t, test.next, p.sealMark(now, late), name)
		require.Equal(t, test.quiet, x.quiet, name)
		require.Equal(t, test.ends, live.sealed, name)
		if test.ends {
			require.Equal(t, []any{at(5), int64(7), now}, []any{live.last, live.writes, live.began})
		}
	}
	p, x := transacting(t)
	p.Remember(Mark{Writes: 8})
	first := x.quiet
	require.WithinDuration(t, time.Now().Add(markQuiet), first, markQuiet/2)
	p.Remember(Mark{Writes: 9})
	require.Equal(t, first, x.quiet, "the first sets the time")
	require.EqualValues(t, 9, x.mark.Writes)
	still(t).Remember(Mark{Writes: 8})
	for name, set := range map[string]func(){
		"kept": func() { x.kept = 9 }, "not begun": func() { x.kept, p.own.begun = 8, false },
		"over": func() { p.own.begun, p.over = true, true },
	} {
		_ = name
		set()
		require.NoError(t, p.Remembered(t.Context()))
	}
	p.over, x.kept = false, 8
	p.own.begun = true
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Remembered(ended), context.Canceled)
	require.NoError(t, still(t).Remembered(ended))
}

// What follows a commit, and an abort.
func TestEndsOfATransaction(t *testing.T) {
	p, x := transacting(t)
	part := p.partitions(1)[0]
	one, dropped := keyed(part, "a"), &batch{}
	part.queued, part.pending = nil, 0
	part.held = []*batch{one}
	*x.live = transaction{
		parts: []*partition{part}, dropped: []*batch{dropped}, records: 2, metadata: "m", last: at(9), writes: 4,
		began: time.Now(), acked: 2, opened: time.Now(), offsetsAdded: true, positioned: true, ending: true,
	}
	live := x.live
	p.redo(identity{1, 7})
	require.Equal(t, 1, x.redone)
	require.Equal(t, []*batch{one}, part.queued)
	require.Equal(t, one.size(), part.pending)
	require.Equal(t, []any{uint64(1), []*partition{part}, false, false, false, true, identity{1, 7}}, []any{
		live.acked, live.unadded, live.offsetsAdded, live.positioned, live.ending, live.opened.IsZero(), p.id,
	})
	require.InDelta(t, 1, testutil.ToFloat64(p.metrics.transactions.WithLabelValues("aborted")), 0)

	part.queued, part.pending, part.held = nil, 0, []*batch{one}
	next := &transaction{}
	x.filling = next
	p.succeed()
	require.Equal(t, []*batch{one, dropped}, p.completed)
	require.Empty(t, part.held)
	require.Equal(t, []any{"m", 0, at(9), int64(4)}, []any{x.committed, x.redone, x.latest, x.kept})
	require.Same(t, next, x.live)
	require.InDelta(t, 1, testutil.ToFloat64(p.metrics.transactions.WithLabelValues("committed")), 0)
	require.True(t, poked(p.acks))

	require.False(t, p.urgent())
	x.live.sealed = true
	require.True(t, p.urgent())
	x.live.sealed, p.flushed = false, true
	require.True(t, p.urgent())
	require.False(t, still(t).urgent())
}
