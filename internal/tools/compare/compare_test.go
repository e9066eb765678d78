package compare

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// side makes n events of three keys in two partitions, as they come in their partitions.
func side(n int) []Record {
	var out []Record
	offsets := map[int32]int64{}
	for i := range n {
		p := int32(i % 3 % 2)
		out = append(out, Record{
			Partition: p, Offset: offsets[p], Timestamp: int64(i), Key: fmt.Append(nil, "k", i%3),
			Value: fmt.Append(nil, "v", i),
			Headers: []router.Header{
				{Key: "runId", Value: []byte("x")},
				{Key: "id", Value: fmt.Append(nil, i)},
				{Key: "type", Value: []byte("t")},
			},
		})
		offsets[p]++
	}
	return out
}

func judge(t *testing.T, o Options, l, r []Record) *Result {
	t.Helper()
	o.Dir = t.TempDir()
	c := New(o)
	defer c.Close()
	for s, all := range [][]Record{l, r} {
		for i := range all {
			c.Add(Side(s), &all[i])
		}
	}
	res, err := c.Result()
	require.NoError(t, err)
	return res
}

// Bug (debezium): `migrate verify --overlap` reported two sides as equal although one lacked a whole topic. Cost: a
// migration with events that no consumer gets.
func TestCompare(t *testing.T) {
	const n = 300
	for _, tc := range []struct {
		name   string
		o      Options
		change func([]Record) []Record // of the right side
		want   map[Kind]int64
	}{
		{"equal", Options{}, func(r []Record) []Record { return r }, nil},
		{
			"missing",
			Options{},
			func(r []Record) []Record { return append(r[:5:5], r[7:]...) },
			map[Kind]int64{OnlyLeft: 2},
		},
		{
			"missing inside the overlap",
			Options{Overlap: true},
			func(r []Record) []Record { return append(r[:50:50], r[52:]...) },
			map[Kind]int64{OnlyLeft: 2},
		},
		{"began later, not yet at the end", Options{Overlap: true}, func(r []Record) []Record {
			return r[40:200]
		}, nil},
		{"nothing in one topic", Options{Overlap: true}, func(r []Record) []Record {
			x := r[n-1]
			x.Topic, x.Headers = 1, []router.Header{{Key: "id", Value: []byte("other")}}
			return append(r, x)
		}, map[Kind]int64{NothingInCommon: 1}},
		{
			"extra",
			Options{},
			func(r []Record) []Record { return append(r, side(n + 1)[n:]...) },
			map[Kind]int64{OnlyRight: 1},
		},
		{
			"value",
			Options{},
			func(r []Record) []Record { r[3].Value = []byte("w"); return r },
			map[Kind]int64{Value: 1},
		},
		{
			"null is not empty",
			Options{},
			func(r []Record) []Record { r[3].Value = []byte{}; r[4].Value = nil; return r },
			map[Kind]int64{Value: 2},
		},
		{"key", Options{}, func(r []Record) []Record { r[3].Key = []byte("k9"); return r }, map[Kind]int64{Key: 1}},
		{
			"header value",
			Options{},
			func(r []Record) []Record { r[3].Headers[2].Value = nil; return r },
			map[Kind]int64{Headers: 1},
		},
		{
			"header order", Options{}, func(r []Record) []Record {
				h := r[3].Headers
				h[1], h[2] = h[2],
					h[1]
				return r
			}, map[Kind]int64{Headers: 1},
		},
		{"ignored header", Options{IgnoreHeaders: []string{"runId"}}, func(r []Record) []Record {
			r[3].Headers[0].Value = []byte("y")
			return r
		}, nil},
		{
			"partition",
			Options{},
			func(r []Record) []Record { r[n-1].Partition = 7; return r },
			map[Kind]int64{Partition: 1},
		},
		{"partition ignored", Options{IgnorePartitions: true}, func(r []Record) []Record {
			r[n-1].Partition = 7
			return r
		}, nil},
		{"topic", Options{}, func(r []Record) []Record { r[n-1].Topic = 1; return r }, map[Kind]int64{Topic: 1}},
		{"timestamps are of no account", Options{}, func(r []Record) []Record { r[3].Timestamp = 99; return r }, nil},
		{
			"timestamps",
			Options{Timestamps: true},
			func(r []Record) []Record { r[3].Timestamp = 99; return r },
			map[Kind]int64{Timestamp: 1},
		},
		{
			"order", Options{}, func(r []Record) []Record {
				r[0].Offset, r[6].Offset = r[6].Offset,
					r[0].Offset
				return r
			}, map[Kind]int64{Order: 2},
		},
		{"order of different keys", Options{}, func(r []Record) []Record {
			r[0].Offset, r[2].Offset = r[2].Offset, r[0].Offset
			return r
		}, nil},
		{"repeats", Options{}, func(r []Record) []Record { return append(r, r[n-20:]...) }, nil},
		{
			"repeat with other content",
			Options{},
			func(r []Record) []Record { x := r[9]; x.Value = nil; return append(r, x) },
			map[Kind]int64{Repeat: 1},
		},
		{
			"no id",
			Options{},
			func(r []Record) []Record { r[n-1].Headers = nil; return r },
			map[Kind]int64{WithoutID: 1, OnlyLeft: 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := judge(t, tc.o, side(n), tc.change(side(n)))
			require.Equal(t, tc.want, res.Counts, "%+v", res.Examples)
			require.Equal(t, tc.want == nil, res.Equal())
			require.Equal(t, int64(n), res.Records[Left])
		})
	}
	res := judge(t, Options{Overlap: true}, side(n), side(n)[40:200])
	require.Equal(t, [2]int64{140, 0}, res.Outside)
	require.Equal(t, int64(160), res.Matched)
	res = judge(t, Options{}, side(n), append(side(n), side(n)[280:]...))
	require.Equal(t, [2]int64{0, 20}, res.Repeated)
}
