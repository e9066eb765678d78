package page

import "math"

// buckets are a histogram as it was read: upper bounds, and counts cumulated up to each; the last count has no bound.
type buckets struct {
	bounds []float64
	counts []uint64
	sum    float64 // of what was observed; 0: not known
}

// since returns the counts that came after an earlier reading of the same histogram.
func (b buckets) since(before buckets) buckets {
	d := buckets{b.bounds, make([]uint64, len(b.counts)), max(0, b.sum-before.sum)}
	for i, n := range b.counts {
		d.counts[i] = n
		if i < len(before.counts) {
			d.counts[i] -= min(n, before.counts[i])
		}
	}
	return d
}

// quantile computes the same value as Prometheus' histogram_quantile: linear within a bucket, and beyond the last bound
// that bound. Where few events were counted in a wide bucket that is far beyond what any of them took, so it is no more
// than the sum. It is NaN if nothing was counted.
func (b buckets) quantile(q float64) float64 {
	if len(b.counts) == 0 || b.counts[len(b.counts)-1] == 0 || len(b.bounds) != len(b.counts)-1 || len(b.bounds) == 0 {
		return math.NaN()
	}
	rank := q * float64(b.counts[len(b.counts)-1])
	low, below := 0.0, 0.0
	for i, high := range b.bounds {
		n := float64(b.counts[i])
		if n >= rank && n > below {
			return b.atMost(low + (high-low)*(rank-below)/(n-below))
		}
		low, below = high, n
	}
	return b.atMost(b.bounds[len(b.bounds)-1])
}

func (b buckets) atMost(seconds float64) float64 {
	if b.sum == 0 {
		return seconds
	}
	return min(seconds, b.sum)
}
