package kafka

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
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

func TestRecordsOfATransaction(t *testing.T) {
	p, x := transacting(t)
	part := p.partitions(1)[0]
	rec := &router.Record{Value: []byte("12345")}
	x.boundary, x.hurry = true, true
	x.add(part, rec.Size(), at(7))
	began := x.live.began
	require.False(t, began.IsZero())
	require.True(t, poked(x.wake), "the partition is to be named to the coordinator")
	x.live.began = began.Add(-time.Hour)
	x.add(part, rec.Size(), at(8))
	require.Equal(t, began.Add(-time.Hour), x.live.began)
	require.Equal(t, []any{uint64(2), int64(2 * rec.Size()), at(8), 1, 1, false, false}, []any{
		x.live.records, x.live.bytes, x.live.last, len(x.live.parts), len(x.live.unadded), x.boundary, x.hurry,
	})
	require.False(t, poked(x.wake))
	x.filling = &transaction{}
	x.add(part, rec.Size(), at(9))
	require.False(t, poked(x.wake), "it is not live")
	require.Equal(t, []*partition{part}, x.filling.unadded)

	for name, test := range map[string]struct {
		sealed  bool
		acked   uint64
		entered bool // the partition has a batch in the log
		parts   int
		wakes   bool
	}{
		"the last":                      {true, 2, true, 1, true},
		"one more":                      {true, 1, true, 1, false},
		"not sealed":                    {false, 2, false, 1, false},
		"the first of the only one":     {true, 1, false, 1, true},
		"the first of one of two":       {true, 1, false, 2, false},
		"the first of one, of the last": {true, 2, false, 2, true},
	} {
		x.live = &transaction{records: 3, acked: test.acked, sealed: test.sealed, parts: p.partitions(2)[:test.parts]}
		part.entered = nil
		if test.entered {
			part.entered, x.live.entered = x.live, 1
		}
		p.tx.hold(&batch{part: part, tx: x.live, records: 1})
		require.Equal(t, test.wakes, poked(x.wake), name)
		require.Equal(t, []any{test.acked + 1, 1, x.live}, []any{x.live.acked, x.live.entered, part.entered}, name)
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
		"a new partition": {
			func(_ *Producer, l *transaction) { l.parts, l.unadded, l.sealed = part, part, true },
			"addPartitions",
		},
		"partitions are added": {func(_ *Producer, l *transaction) { l.parts = part }, "addOffsets"},
		"a mark alone":         {func(_ *Producer, l *transaction) { l.sealed = true }, "addOffsets"},
		"offsets are added":    {func(_ *Producer, l *transaction) { l.parts, l.offsetsAdded = part, true }, ""},
		"sealed, a leader may ask": {func(_ *Producer, l *transaction) {
			l.parts, l.sealed, l.offsetsAdded, l.records = part, true, true, 1
		}, ""},
		"sealed": {func(_ *Producer, l *transaction) {
			l.parts, l.sealed, l.offsetsAdded, l.records, l.entered = part, true, true, 1, 1
		}, "commitPosition"},
		"sealed, its only record was dropped": {func(_ *Producer, l *transaction) {
			l.parts, l.sealed, l.offsetsAdded, l.records, l.acked = part, true, true, 1, 1
		}, "commitPosition"},
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
	} {
		p, x := transacting(t)
		test.set(p, x.live)
		require.Equal(t, test.want, stepName(p.nextStep()), name)
	}
}

// A mark that no record takes along is kept by a transaction of its own, after a while.
func TestKeepsAMarkAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			"not begun": {func(p *Producer, _ *transactions) { p.own.begun = false }, again, again, false},
			"fenced":    {func(p *Producer, _ *transactions) { p.ended = sink.ErrFenced }, again, again, false},
			"another one ends": {
				func(_ *Producer, x *transactions) { x.filling = &transaction{} },
				again, again, false,
			},
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
		p.Remember(sink.Mark{Writes: 8})
		first := x.quiet
		require.Equal(t, time.Now().Add(markQuiet), first)
		p.Remember(sink.Mark{Writes: 9})
		require.Equal(t, first, x.quiet, "the first sets the time")
		require.EqualValues(t, 9, x.mark.Writes)
		still(t).Remember(sink.Mark{Writes: 8})
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
	})
}

// What follows a commit.
func TestEndsOfATransaction(t *testing.T) {
	p, x := transacting(t)
	part := p.partitions(1)[0]
	one := keyed(part, "a")
	part.queued, part.pending = nil, 0
	part.held = []*batch{one}
	*x.live = transaction{
		parts: []*partition{part}, records: 1, metadata: "m", last: at(9), writes: 4,
		began: time.Now(), acked: 1, opened: time.Now(), offsetsAdded: true, positioned: true,
	}
	part.queued, part.pending, part.held = nil, 0, []*batch{one}
	next := &transaction{}
	x.filling = next
	p.succeed()
	require.Equal(t, []*batch{one}, p.completed)
	require.Empty(t, part.held)
	require.Equal(t, []any{at(9), int64(4)}, []any{x.latest, x.kept})
	require.Same(t, next, x.live)
	require.InDelta(t, 1, testutil.ToFloat64(p.metrics.transactions.WithLabelValues("committed")), 0)
	require.True(t, poked(p.acks))

	require.False(t, x.ends())
	x.live.sealed = true
	require.True(t, x.ends())
	require.False(t, still(t).tx.ends())
}
