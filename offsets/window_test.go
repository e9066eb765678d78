package offsets

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// full makes a window and fills it with records of so many bytes.
func full(t *testing.T, records int, bytes int64, each ...int) *Window {
	w := NewWindow(records, bytes)
	for _, n := range each {
		require.NoError(t, w.Acquire(t.Context(), n))
	}
	return w
}

func TestWindowBlocksUntilThereIsRoom(t *testing.T) {
	tests := []struct {
		name    string
		window  func(t *testing.T) *Window
		next    int
		release func(w *Window)
	}{
		{"records", func(t *testing.T) *Window { return full(t, 2, 100, 1, 1) }, 1, func(w *Window) {
			w.Release(1, 1)
		}},
		{"bytes", func(t *testing.T) *Window { return full(t, 9, 100, 60, 30) }, 11, func(w *Window) {
			w.Release(1, 30)
		}},
		{"bytes before records", func(t *testing.T) *Window { return full(t, 9, 100, 60, 30) }, 11, func(w *Window) {
			w.Release(0, 1)
		}},
		{"larger than the window", func(t *testing.T) *Window { return full(t, 9, 100, 1) }, 1000, func(w *Window) {
			w.Release(1, 1)
		}},
		{
			"after one larger than the window", func(t *testing.T) *Window { return full(t, 9, 100, 1000) }, 1,
			func(w *Window) {
				w.Release(1, 1000)
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := tt.window(t)
				done := make(chan error, 1)
				go func() { done <- w.Acquire(t.Context(), tt.next) }()
				synctest.Wait()
				require.Empty(t, done, "it did not wait")
				tt.release(w)
				synctest.Wait()
				require.Len(t, done, 1, "it still waits")
				require.NoError(t, <-done)
			})
		})
	}
}

func TestWindowGoesOnWaitingWhenTooLittleIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := full(t, 9, 100, 50, 50)
		done := make(chan error, 1)
		go func() { done <- w.Acquire(t.Context(), 80) }()
		synctest.Wait()
		w.Release(1, 50)
		synctest.Wait()
		require.Empty(t, done)
		w.Release(1, 50)
		require.NoError(t, <-done)
		records, bytes := w.InUse()
		require.Equal(t, 1, records)
		require.Equal(t, int64(80), bytes)
	})
}

func TestWindowLargeRecordPassesWhenEmpty(t *testing.T) {
	w := full(t, 1, 10, 1000)
	records, bytes := w.InUse()
	require.Equal(t, 1, records)
	require.Equal(t, int64(1000), bytes)
}

func TestWindowCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := full(t, 1, 10, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Acquire(ctx, 1) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		records, _ := w.InUse()
		require.Equal(t, 1, records, "a cancelled wait took room")
		w.Release(1, 1)
		require.NoError(t, w.Acquire(t.Context(), 1))
	})
}

// One Release may make room for several waiters, of whom some give up at the same moment.
func TestWindowServesAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := full(t, 3, 100, 1, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 3)
		for range 3 {
			go func() { served <- w.Acquire(t.Context(), 1) }()
		}
		for range 3 {
			go func() { _ = w.Acquire(ctx, 1) }()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		w.Release(3, 3)
		synctest.Wait()
		require.Len(t, served, 3)
	})
}

func TestWindowTryAcquire(t *testing.T) {
	w := full(t, 2, 10, 4)
	require.False(t, w.TryAcquire(7))
	require.True(t, w.TryAcquire(6))
	require.False(t, w.TryAcquire(0), "no record left")
	records, bytes := w.InUse()
	require.Equal(t, 2, records)
	require.Equal(t, int64(10), bytes)
	w.Release(2, 10)
	require.True(t, w.TryAcquire(1000), "larger than the window, which is empty")
}

func TestWindowOverRelease(t *testing.T) {
	w := full(t, 1, 10, 5)
	w.Release(7, 70)
	records, bytes := w.InUse()
	require.Zero(t, records)
	require.Zero(t, bytes)
}

func TestWindowSmallestIsOne(t *testing.T) {
	w := full(t, 0, -1, 5)
	w.Release(1, 5)
	require.NoError(t, w.Acquire(t.Context(), 5))
}

// One reader, one releaser, never more inside than allowed.
func TestWindowConcurrent(t *testing.T) {
	w := NewWindow(16, 1000)
	acquired := make(chan int, 64)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(acquired)
		for i := range 20_000 {
			n := i % 300
			if err := w.Acquire(t.Context(), n); err != nil {
				t.Error(err)
				return
			}
			if records, bytes := w.InUse(); records > 16 || bytes > 1000 {
				t.Errorf("%d records, %d bytes in use", records, bytes)
			}
			acquired <- n
		}
	})
	wg.Go(func() {
		for n := range acquired {
			w.Release(1, int64(n))
		}
	})
	wg.Wait()
	records, bytes := w.InUse()
	require.Zero(t, records)
	require.Zero(t, bytes)
}

func TestWindowAllocatesNothing(t *testing.T) {
	w, ctx := NewWindow(10, 1000), context.Background()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = w.Acquire(ctx, 100)
		w.Release(1, 100)
	}))
}

func BenchmarkWindow(b *testing.B) {
	w, ctx := NewWindow(10, 1000), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_ = w.Acquire(ctx, 100)
		w.Release(1, 100)
	}
}

// The window is full while an Acquire waits, whatever ends the wait.
func TestWindowFullWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := full(t, 1, 100, 1)
		require.False(t, w.Full(), "none waits")
		for _, canceled := range []bool{false, true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.Acquire(ctx, 1) }()
			synctest.Wait()
			require.True(t, w.Full())
			if canceled {
				cancel()
				require.ErrorIs(t, <-done, context.Canceled)
			} else {
				w.Release(1, 1)
				require.NoError(t, <-done)
			}
			require.False(t, w.Full())
			cancel()
		}
	})
}
