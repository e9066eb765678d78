package walsocket

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kernelQueue is the receive queue of a socket.
type kernelQueue struct {
	raw  syscall.RawConn
	near bool // the server is so near that the buffer may be fixed

	ask, hold, free func(fd uintptr) // made once, so that calling them does not allocate
	have            int
}

// kernelQueueOf returns nil where c is not a socket.
func kernelQueueOf(c net.Conn) queue {
	if q := newKernelQueue(c); q != nil {
		q.near = q.isNear()
		return q
	}
	return nil
}

func newKernelQueue(c net.Conn) *kernelQueue {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	q := &kernelQueue{raw: raw}
	q.ask = func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		if err != nil {
			n = -1
		}
		q.have = n
	}
	// Where holding fails, naps gain less, and nothing else changes. Kernels before 5.14 know no SO_BUF_LOCK and keep
	// the size.
	q.hold = func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, napBuffer) }
	q.free = func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BUF_LOCK, 0) }
	return q
}

func (q *kernelQueue) bytes() int {
	if q.raw.Control(q.ask) != nil {
		return -1
	}
	return q.have
}

func (q *kernelQueue) lowWater(n int) {
	// Without it (Unix-domain sockets ignore it) naps gain less, and nothing else changes.
	_ = q.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) })
}

func (q *kernelQueue) isNear() (near bool) {
	_ = q.raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		near = err == nil && time.Duration(info.Rtt)*time.Microsecond <= napRTT
	})
	return near
}

func (q *kernelQueue) fix(fixed bool) {
	switch {
	case !q.near:
	case fixed:
		_ = q.raw.Control(q.hold)
	default:
		_ = q.raw.Control(q.free)
	}
}
