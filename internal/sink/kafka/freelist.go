package kafka

import (
	"sync"
	"time"
)

// freeList keeps memory that was used, for the next one that needs some. Unlike a sync.Pool it hands out the item that
// came back last, which is still in the processor's cache, and the garbage collector does not empty it while it is in
// use: each collection would have everything allocated again, which brings the next collection closer. trim gives the
// memory of a burst back.
type freeList[T any] struct {
	mu    sync.Mutex
	items []T
	least int // the fewest items since the last trim
}

// take returns the item that came back last; false if there is none.
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

// trim drops half of the items that were not needed since the last trim.
func (l *freeList[T]) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	keep := copy(l.items, l.items[(l.least+1)/2:]) // the items that came back last
	clear(l.items[keep:])
	l.items, l.least = l.items[:keep], keep
}

// empty drops everything.
func (l *freeList[T]) empty() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items, l.least = nil, 0
}

// trimmed is when the lists were trimmed last, by any producer of the process.
var trimmed struct {
	sync.Mutex
	at time.Time
}

// trimFree drops memory that the last second did not need. The clock of each producer calls it; once a second counts.
func trimFree(now time.Time) {
	trimmed.Lock()
	defer trimmed.Unlock()
	if since := now.Sub(trimmed.at); 0 <= since && since < time.Second {
		return
	}
	trimmed.at = now
	for i := range freeChunks {
		freeChunks[i].trim()
	}
	freeBatches.trim()
}

// emptyFree drops all of it, when a producer ends: there may be no other to trim it.
func emptyFree() {
	for i := range freeChunks {
		freeChunks[i].empty()
	}
	freeBatches.empty()
}
