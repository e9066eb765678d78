package offsets

import (
	"context"
	"sync"
)

// Window bounds the records in flight between the stream and Kafka: back-pressure. While it is full the reader waits in
// Acquire and so stops reading the socket; everything else goes on.
type Window struct {
	maxRecords int
	maxBytes   int64

	mu      sync.Mutex
	records int
	bytes   int64
	waiting int
	wake    chan struct{} // one slot: there may be room
}

// NewWindow makes a window of so many records and bytes, at least 1 of each.
func NewWindow(records int, bytes int64) *Window {
	return &Window{maxRecords: max(records, 1), maxBytes: max(bytes, 1), wake: make(chan struct{}, 1)}
}

// Acquire takes room for one record of so many bytes, waiting for it until ctx ends; then it takes nothing and returns
// ctx's error. A record larger than the whole window passes when the window is empty, otherwise it never could. It is
// made for one waiting goroutine; several are served, in no particular order.
func (w *Window) Acquire(ctx context.Context, bytes int) error {
	w.mu.Lock()
	if w.tryTake(int64(bytes)) {
		w.mu.Unlock()
		return nil
	}
	w.waiting++
	for {
		w.mu.Unlock()
		select {
		case <-w.wake:
			w.mu.Lock()
		case <-ctx.Done():
			w.mu.Lock()
			w.waiting--
			w.mu.Unlock()
			return ctx.Err()
		}
		if w.tryTake(int64(bytes)) {
			w.waiting--
			w.signal() // one Release may make room for several
			w.mu.Unlock()
			return nil
		}
	}
}

// TryAcquire takes room for one record if there is room now.
func (w *Window) TryAcquire(bytes int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tryTake(int64(bytes))
}

func (w *Window) tryTake(bytes int64) bool {
	if w.records > 0 && (w.records >= w.maxRecords || bytes > w.maxBytes-w.bytes) {
		return false
	}
	w.records++
	w.bytes += bytes
	return true
}

// signal wakes one waiting goroutine, if there is one.
func (w *Window) signal() {
	if w.waiting == 0 {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Release gives room back, from any goroutine: the sums of the records acquired. Giving back more than was taken leaves
// the window empty rather than larger than configured.
func (w *Window) Release(records int, bytes int64) {
	w.mu.Lock()
	w.records = max(w.records-records, 0)
	w.bytes = max(w.bytes-bytes, 0)
	w.signal()
	w.mu.Unlock()
}

// Full reports whether an Acquire waits for room.
func (w *Window) Full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0
}

// InUse returns the records and bytes acquired and not released.
func (w *Window) InUse() (records int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records, w.bytes
}
