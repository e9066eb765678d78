package kafka

import "math/bits"

// A batch grows by chunks instead of by re-allocating one slice: growing never copies encoded records, and a finished
// batch goes to the socket as it lies in memory (writev). Few sizes, so that a chunk that one batch gave back serves
// any other: with sizes that grew with the batch, memory held the most that each of them had ever needed. A small batch
// grows by pages, and its records may span them where they come encoded, from the stage.
//
// A chunk is a slice with the capacity that its class says. Exactly one batch owns it, from newChunk until freeChunk.
const (
	pageBits     = 10 // 1 KiB: the size of chunks of small batches
	chunkBits    = 12 // 4 KiB: of all other batches. With 8 KiB the last ones' unused tails came to 1 to 3 MB more
	bigChunkBits = 16 // 64 KiB: up to here, for batches of several records of which fewer than four fit into those
	maxChunkBits = 20 // 1 MiB: a larger record gets a buffer of its own size, which is not kept
)

// smallBatch is the payload of a partition's last batch up to which the next one grows by pages. With records for
// thousands of partitions in memory, the tails of their batches take the room.
const smallBatch = 4 << pageBits

var freeChunks [maxChunkBits - pageBits + 1]freeList[[]byte]

// chunkClass returns the free list for chunks with room for n bytes, and their size: a power of two.
func chunkClass(n int) (class, size int) {
	power := max(bits.Len(uint(max(n, 1)-1)), pageBits)
	return power - pageBits, 1 << power
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

// chunkSize is the size of the chunks of a batch that is not small and holds payload bytes, where the next one must
// take n. A batch of one large record, or two, takes little more than they need: thousands of partitions may have one
// each.
func chunkSize(n, payload int) int { return max(n, 1<<chunkBits, min(4*n, 1<<bigChunkBits, 2*payload)) }
