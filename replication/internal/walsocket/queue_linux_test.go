package walsocket

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestKernelQueueAsksTheKernel(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	out, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer out.Close()
	in, err := ln.Accept()
	require.NoError(t, err)
	defer in.Close()
	q := newKernelQueue(in)
	require.Zero(t, q.bytes())
	_, err = out.Write(make([]byte, 1000))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return q.bytes() == 1000 }, 30*time.Second, time.Millisecond)
	require.Zero(t, testing.AllocsPerRun(100, func() { q.bytes() }))

	q.fixable = q.isNear() && q.fits()
	q.fix(true)
	var size int
	require.NoError(t, q.raw.Control(func(fd uintptr) {
		size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	}))
	require.NoError(t, err)
	require.Equal(t, 2*receiveBuffer, size, "the other end is near")

	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	require.Nil(t, newKernelQueue(near))
}

// TestSocketOverUnixNeverSleeps: there each row would wake the runtime's poller, and the queue holds little.
func TestSocketOverUnixNeverSleeps(t *testing.T) {
	require.Zero(t, sleepOver(t, "unix", t.TempDir()+"/s"))
	require.NotZero(t, sleepOver(t, "tcp", "127.0.0.1:0"))
}

// sleepOver is how long a reader of a busy server would sleep over such a connection.
func sleepOver(t *testing.T, network, address string) time.Duration {
	ln, err := net.Listen(network, address)
	require.NoError(t, err)
	defer ln.Close()
	conn, err := net.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	s := New(conn)
	s.Stream(func() {}, func() int { return 0 })
	s.pace.rate = 100 << 20
	s.pace.started = time.Now().Add(time.Hour)
	return s.pace.sleep(time.Now(), 0, 0)
}
