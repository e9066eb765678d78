package walsocket

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps. The runtime's timers wait in epoll, by whole milliseconds, so shorter sleeps are the kernel's.
func pause(d time.Duration) {
	if d >= 2*time.Millisecond {
		time.Sleep(d)
		return
	}
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal ends it early: the next one is as long again
}
