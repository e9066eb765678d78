package page

import (
	"math"
	"strconv"
	"time"
)

// ring holds the latest samples.
type ring[T any] struct {
	samples []sample[T] // of a fixed length
	n       uint64      // samples ever added
}

func newRing[T any](kept int) ring[T] { return ring[T]{samples: make([]sample[T], kept)} }

// kept returns how many samples are there.
func (r *ring[T]) kept() uint64 { return min(r.n, uint64(len(r.samples))) }

type sample[T any] struct {
	tick uint64
	at   int64 // Unix milliseconds
	of   T
}

func (r *ring[T]) add(tick uint64, at time.Time, of T) {
	r.samples[r.n%uint64(len(r.samples))] = sample[T]{tick, at.UnixMilli(), of}
	r.n++
}

// after returns the index of the first sample that is newer than the tick, for at; r.n when none is.
func (r *ring[T]) after(tick uint64) uint64 {
	i := r.n
	for i > 0 && i > r.n-r.kept() && r.at(i-1).tick > tick {
		i--
	}
	return i
}

func (r *ring[T]) at(i uint64) *sample[T] { return &r.samples[i%uint64(len(r.samples))] }

// column is one figure of a sample under the name that the page knows.
type column[T any] struct {
	name  string
	value func(*T) float64 // NaN: not known
}

// appendJSON writes the samples from index first on, and one more unless it is nil, as an object of arrays, a third of
// the size of an array of objects.
func (r *ring[T]) appendJSON(b []byte, first uint64, more *sample[T], columns []column[T]) []byte {
	b = append(b, `{"at":[`...)
	for i := first; i < r.n; i++ {
		b = strconv.AppendInt(separated(b), r.at(i).at, 10)
	}
	if more != nil {
		b = strconv.AppendInt(separated(b), more.at, 10)
	}
	for _, c := range columns {
		b = append(b, "],"...)
		b = strconv.AppendQuote(b, c.name)
		b = append(b, ":["...)
		for i := first; i < r.n; i++ {
			b = appendNumber(separated(b), c.value(&r.at(i).of))
		}
		if more != nil {
			b = appendNumber(separated(b), c.value(&more.of))
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
