package kafka

import "math/bits"

// A batch grows by chunks instead of by re-allocating one slice: growing never copies what is already encoded, the
// unused tail is at most half of what the batch holds, a quarter where batches are small, and a finished batch goes to
// the socket as it lies in memory (writev).
//
// A chunk is a slice that holds whole records, with the capacity that its class says. Exactly one batch owns it, from
// newChunk until freeChunk.
const (
	minChunk     = 256  // the first chunk of a batch is no smaller: of thousands of partitions each has one
	fewChunk     = 2048 // nor larger where the partition's last batch had that much
	topChunkBits = 14   // 16 KiB: chunks double up to here; what is unused of 64 KiB ones came to 3 MB
	bigChunkBits = 16   // 64 KiB: up to here for records of which fewer than four fit into those
	maxChunkBits = 20   // 1 MiB: a larger record gets a buffer of its own size, which is not kept
)

// smallBatch is the payload of a partition's last batch up to which the next one grows in small steps. With records for
// thousands of partitions in memory, the tails of their batches are what takes the room.
const smallBatch = 2 * fewChunk

// chunkStep is between the sizes of small chunks: the allocator has each of them, and above 1 KiB every second.
const chunkStep = 128

var freeChunks [fewChunk/chunkStep + 1 + maxChunkBits - 11]freeList[[]byte]

// chunkClass returns the free list for chunks with room for n bytes, and their size: the next multiple of 128 B, above
// 1 KiB of 256 B, above 2 KiB the next power of two.
func chunkClass(n int) (class, size int) {
	switch {
	case n > fewChunk:
		power := bits.Len(uint(n - 1))
		return fewChunk/chunkStep + power - 11, 1 << power
	case n > 1024:
		size = (n + 255) &^ 255
	default:
		size = (max(n, minChunk) + chunkStep - 1) &^ (chunkStep - 1)
	}
	return size / chunkStep, size
}

// newChunk returns an empty chunk with room for at least n bytes.
func newChunk(n int) []byte {
	if n > 1<<maxChunkBits {
		return make([]byte, 0, n)
	}
	class, size := chunkClass(n)
	if c, ok := freeChunks[class].take(); ok {
		return c
	}
	return make([]byte, 0, size)
}

// freeChunk gives the chunk back.
func freeChunk(c []byte) {
	if cap(c) == 0 || cap(c) > 1<<maxChunkBits {
		return
	}
	if class, size := chunkClass(cap(c)); cap(c) == size {
		freeChunks[class].put(c[:0])
	}
}

// nextChunkSize is the size of the chunk that follows one of the given capacity and must take n bytes.
func nextChunkSize(previous, n int) int {
	return max(n, min(2*previous, max(1<<topChunkBits, min(4*n, 1<<bigChunkBits))))
}
