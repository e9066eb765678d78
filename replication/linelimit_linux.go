package replication

import "golang.org/x/sys/unix"

// limitUnacknowledged sets TCP_USER_TIMEOUT (tcp(7)).
func limitUnacknowledged(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lineLimit.Milliseconds()))
}
