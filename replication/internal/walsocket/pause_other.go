//go:build !linux

package walsocket

import "time"

// pause is never called here: without the kernel's queue there are no sleeps.
func pause(d time.Duration) { time.Sleep(d) }
