package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

func TestLedger(t *testing.T) {
	tests := map[string]struct {
		arrivals []uint64 // versions of one key; 0: a doomed event
		want     reading
	}{
		"in order":             {[]uint64{1, 2, 3}, reading{consumed: 3}},
		"repeat":               {[]uint64{1, 2, 2}, reading{consumed: 2, duplicates: 1}},
		"rewind":               {[]uint64{1, 2, 3, 1, 2, 3, 4}, reading{consumed: 4, duplicates: 3}},
		"lost":                 {[]uint64{1, 4}, reading{consumed: 2, disorder: 1, missing: 2}},
		"late":                 {[]uint64{1, 3, 2}, reading{consumed: 3, disorder: 1}},
		"late and again":       {[]uint64{1, 3, 2, 2}, reading{consumed: 3, disorder: 1, duplicates: 1}},
		"does not start at 1":  {[]uint64{2}, reading{consumed: 1, disorder: 1, missing: 1}},
		"rolled back":          {[]uint64{1, 0, 2}, reading{consumed: 2, phantoms: 1}},
		"swapped across a gap": {[]uint64{4, 1}, reading{consumed: 2, disorder: 1, missing: 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			for _, v := range test.arrivals {
				l.see(arrival{aggregate: aggregate{orderTopic, "1"}, version: v, doomed: v == 0})
			}
			require.Equal(t, test.want, l.totals())
		})
	}
}

func TestLedgerKeepsKeysAndTopicsApart(t *testing.T) {
	l := newLedger()
	for _, a := range []aggregate{{orderTopic, "1"}, {orderTopic, "2"}, {paymentTopic, "1"}} {
		l.see(arrival{aggregate: a, version: 1})
	}
	require.Equal(t, reading{consumed: 3}, l.totals())
}

func TestLedgerLatency(t *testing.T) {
	l := newLedger()
	e := outbox.Event{ID: "a"}
	before := time.Now()
	l.committing([]outbox.Event{e})
	after := time.Now()
	l.see(arrival{aggregate: aggregate{orderTopic, "1"}, id: "a", version: 1, at: before.Add(time.Second)})
	l.see(arrival{aggregate: aggregate{orderTopic, "1"}, id: "a", version: 1, at: time.Now().Add(time.Hour)})
	got := l.totals().latency
	tolerance := after.Sub(before) + 2*time.Millisecond // the histogram is as precise as that
	require.InDelta(t, time.Second, got.max, float64(tolerance), "the repeat has no latency of its own")
	require.Empty(t, l.sent, "what has arrived needs no memory")
	require.Equal(t, got, l.recent())
	require.Equal(t, got, l.recent(), "nothing new: the last one again")
}

func TestRead(t *testing.T) {
	record := func(key, value string, headers ...string) *kgo.Record {
		r := &kgo.Record{Topic: orderTopic, Key: []byte(key), Value: []byte(value)}
		for _, h := range headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h, Value: []byte("x")})
		}
		return r
	}
	a, ok := read(record("7", `{"order": 7, "version": 3}`, "id", "type", doomed), time.Time{})
	require.True(t, ok)
	require.Equal(t, arrival{aggregate: aggregate{orderTopic, "7"}, id: "x", version: 3, doomed: true}, a)
	for _, r := range []*kgo.Record{
		record("8", `{"order": 7, "version": 3}`, "id"), record("7", `{"order": 7, "version": 3}`),
		record("7", `{"order": 7}`, "id"), record("7", `{`, "id"), record("7", ``, "id"),
	} {
		_, ok := read(r, time.Time{})
		require.False(t, ok, "%s", r.Value)
	}
}
