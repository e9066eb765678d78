package walsocket

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kernelQueue is the receive queue of a socket.
type kernelQueue struct {
	raw     syscall.RawConn
	fixable bool // a buffer of fixed size holds all that has to be under way

	ask, hold, free, mark func(fd uintptr) // made once, so that calling them does not allocate
	have, least           int
}

// kernelQueueOf returns nil if c is not a socket. far says that the kernel goes on sizing the buffer.
func kernelQueueOf(c net.Conn) (kernel queue, far bool) {
	if q := newKernelQueue(c); q != nil {
		q.fixable = q.isNear() && q.fits()
		return q, !q.fixable
	}
	return nil, false
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
	// If holding fails, sleeps gain less, and nothing else changes. Kernels before 5.14 know no SO_BUF_LOCK and keep
	// the size.
	q.hold = func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) }
	q.free = func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BUF_LOCK, 0) }
	// Without it sleeps gain less, and nothing else changes.
	q.mark = func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, q.least) }
	return q
}

func (q *kernelQueue) bytes() int {
	if q.raw.Control(q.ask) != nil {
		return -1
	}
	return q.have
}

func (q *kernelQueue) lowWater(n int) {
	q.least = n
	_ = q.raw.Control(q.mark)
}

func (q *kernelQueue) isNear() (near bool) {
	_ = q.raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		near = err == nil && time.Duration(info.Rtt)*time.Microsecond <= fixedRTT
	})
	return near
}

// fits reports whether the kernel grants the buffer: if net.core.rmem_max is small, a fixed one would hold less than
// the longest segment, and lose it again and again.
func (q *kernelQueue) fits() (fits bool) {
	_ = q.raw.Control(func(fd uintptr) {
		q.hold(fd)
		size, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		fits = err == nil && size >= 2*receiveBuffer
		q.free(fd)
	})
	return fits
}

func (q *kernelQueue) fix(fixed bool) {
	switch {
	case !q.fixable:
	case fixed:
		_ = q.raw.Control(q.hold)
	default:
		_ = q.raw.Control(q.free)
	}
}
