package wire

import (
	"context"
	"time"
)

// SleepUntil reports false when ctx ended first.
func SleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
