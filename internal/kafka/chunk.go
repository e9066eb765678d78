package kafka

import (
	"math/bits"
	"sync"
)

// A batch grows by chunks instead of by re-allocating one slice: growing never copies what is already encoded, the
// unused tail is at most half of what the batch holds, and a finished batch goes to the socket as it lies in
// memory (writev).
const (
	minChunkBits = 9  // 512 B: the first chunk of a batch is no smaller: of thousands of partitions each has one
	fewChunkBits = 11 // 2 KiB: nor larger where the partition's last batch had that much
	topChunkBits = 16 // 64 KiB: chunks double up to here
	maxChunkBits = 20 // 1 MiB: a larger record gets a buffer of its own size, which no pool keeps
)

// chunk is a buffer that holds whole records. Exactly one batch owns it, from newChunk until free.
type chunk struct {
	buf []byte
}

var chunkPools [maxChunkBits + 1]sync.Pool

// newChunk returns an empty chunk with room for at least n bytes.
func newChunk(n int) *chunk {
	class := max(bits.Len(uint(n-1)), minChunkBits)
	if class > maxChunkBits {
		return &chunk{buf: make([]byte, 0, n)}
	}
	if c, ok := chunkPools[class].Get().(*chunk); ok {
		return c
	}
	return &chunk{buf: make([]byte, 0, 1<<class)}
}

// free gives the chunk back. sync.Pool lets the garbage collector take what two cycles did not use, so a burst
// does not stay in memory.
func (c *chunk) free() {
	if class := bits.Len(uint(cap(c.buf) - 1)); class <= maxChunkBits && cap(c.buf) == 1<<class {
		c.buf = c.buf[:0]
		chunkPools[class].Put(c)
	}
}

// nextChunkSize is the size of the chunk that follows one of the given capacity and must take n bytes.
func nextChunkSize(previous, n int) int {
	return max(n, min(2*previous, 1<<topChunkBits))
}
