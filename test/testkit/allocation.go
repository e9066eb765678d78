package testkit

import (
	"math"
	"runtime/metrics"
)

// AllocationBound is what a message may cost: what it holds, once more as columns or values, and the runtime's own
// slack. A length or a count that the message only claims must not be allocated.
func AllocationBound(message []byte) uint64 { return 64<<10 + 64*uint64(len(message)) }

// Allocated is how many bytes f allocates on the heap. Other goroutines count, too, and small objects are counted by
// the span, so what seems much is measured again.
func Allocated(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	least := uint64(math.MaxUint64)
	for try := 0; try == 0 || try < 5 && least > 64<<10; try++ {
		metrics.Read(sample)
		before := sample[0].Value.Uint64()
		f()
		metrics.Read(sample)
		least = min(least, sample[0].Value.Uint64()-before)
	}
	return least
}
