package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
//
// Bug (producer): With `exactly_once`, a reader that waited for room ended a transaction as soon as its predecessor had
// ended. Cost: a third to two thirds of the transactions under load were small ones, each with a marker in every
// partition.
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
		"another one ends, at a mark": {true, true, 3, 3, false},
		"a mark alone is committed":   {true, true, 3, 0, true},
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
