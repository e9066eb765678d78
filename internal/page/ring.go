package page

import (
	"math"
	"strconv"
	"time"
)

// kept is how many samples a ring holds: fifteen minutes of seconds.
const kept = 15 * 60

// ring holds the latest samples.
type ring[T any] struct {
	samples [kept]sample[T]
	n       uint64 // samples ever added
}

type sample[T any] struct {
	tick uint64
	at   int64 // Unix milliseconds
	of   T
}

func (r *ring[T]) add(tick uint64, at time.Time, of T) {
	r.samples[r.n%kept] = sample[T]{tick, at.UnixMilli(), of}
	r.n++
}

// after returns the index of the first sample that is newer than the tick, for at; r.n when none is.
func (r *ring[T]) after(tick uint64) uint64 {
	i := r.n
	for i > 0 && i > r.n-min(r.n, kept) && r.at(i-1).tick > tick {
		i--
	}
	return i
}

func (r *ring[T]) at(i uint64) *sample[T] { return &r.samples[i%kept] }

// column is one figure of a sample under the name that the page knows.
type column[T any] struct {
	name  string
	value func(*T) float64 // NaN: not known
}

// appendJSON writes the samples from index first on as an object of arrays, a third of the size of an array of objects.
func (r *ring[T]) appendJSON(b []byte, first uint64, columns []column[T]) []byte {
	b = append(b, `{"at":[`...)
	for i := first; i < r.n; i++ {
		b = strconv.AppendInt(separated(b), r.at(i).at, 10)
	}
	for _, c := range columns {
		b = append(b, "],"...)
		b = strconv.AppendQuote(b, c.name)
		b = append(b, ":["...)
		for i := first; i < r.n; i++ {
			b = appendNumber(separated(b), c.value(&r.at(i).of))
		}
	}
	return append(b, "]}"...)
}

func separated(b []byte) []byte {
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	return b
}

// appendNumber writes whole numbers as such: sizes are compared with /status.
func appendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(b, "null"...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', 6, 64)
}
