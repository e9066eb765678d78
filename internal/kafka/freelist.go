package kafka

import "sync"

// freeList keeps memory that was used, for the next one that needs some. Unlike a sync.Pool it hands out what came back
// last, which is still in the processor's cache, and the garbage collector does not empty it while it is in use: each
// collection would have everything allocated again, which brings the next collection closer. trim gives the memory of
// a burst back.
type freeList[T any] struct {
	mu    sync.Mutex
	items []T
	least int // the fewest items since the last trim
}

// take returns what came back last; false where there is nothing.
func (l *freeList[T]) take() (item T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.items) - 1
	if n < 0 {
		return item, false
	}
	item = l.items[n]
	var none T
	l.items[n], l.items = none, l.items[:n]
	l.least = min(l.least, n)
	return item, true
}

func (l *freeList[T]) put(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, item)
}

// trim drops half of what was not needed since the last trim.
func (l *freeList[T]) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	keep := len(l.items) - (l.least+1)/2
	clear(l.items[keep:])
	l.items = l.items[:keep]
	l.least = keep
}

// trimFree drops memory that the last seconds did not need. The clock of each producer calls it.
func trimFree() {
	for i := range freeChunks {
		freeChunks[i].trim()
	}
	freeBatches.trim()
}
