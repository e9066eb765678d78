package linelimit

import "golang.org/x/sys/unix"

// setUserTimeout sets TCP_USER_TIMEOUT (tcp(7)).
func setUserTimeout(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
}
