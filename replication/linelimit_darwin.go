package replication

import "golang.org/x/sys/unix"

// limitUnacknowledged sets TCP_RXT_CONNDROPTIME (netinet/tcp.h), which counts in seconds.
func limitUnacknowledged(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RXT_CONNDROPTIME, int(lineLimit.Seconds()))
}
