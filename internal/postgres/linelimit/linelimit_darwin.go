package linelimit

import "golang.org/x/sys/unix"

// setUserTimeout sets TCP_RXT_CONNDROPTIME (netinet/tcp.h), which counts in seconds.
func setUserTimeout(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RXT_CONNDROPTIME, int(limit.Seconds()))
}
