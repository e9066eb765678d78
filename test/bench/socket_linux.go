package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a connection outside of the Go runtime's poller. The poller waits for all sockets at once, so that an idle
// thread would be woken for each segment that arrives while the reader sleeps.
type socket struct {
	file          *os.File
	fd            int
	local, remote net.Addr
}

func dialSocket(ctx context.Context, network, address string, buffer int) (*socket, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	f, ok := conn.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.New("a connection without a file descriptor")
	}
	file, err := f.File()
	if err != nil {
		return nil, err
	}
	s := &socket{file: file, fd: int(file.Fd()), local: conn.LocalAddr(), remote: conn.RemoteAddr()}
	if err := unix.SetNonblock(s.fd, false); err != nil {
		return nil, err
	}
	if buffer > 0 {
		return s, unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	return s, nil
}

// queued is how many bytes have arrived and not been read.
func (s *socket) queued() int {
	n, err := unix.IoctlGetInt(s.fd, unix.SIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

func (s *socket) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, p)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (s *socket) Write(p []byte) (int, error) {
	for done := 0; ; {
		n, err := unix.Write(s.fd, p[done:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return done, os.NewSyscallError("write", err)
		}
		if done += max(n, 0); done == len(p) {
			return done, nil
		}
	}
}

func (s *socket) Close() error         { return s.file.Close() }
func (s *socket) LocalAddr() net.Addr  { return s.local }
func (s *socket) RemoteAddr() net.Addr { return s.remote }

// Deadlines are not needed: the process that runs this is killed when it takes too long.
func (s *socket) SetDeadline(time.Time) error      { return nil }
func (s *socket) SetReadDeadline(time.Time) error  { return nil }
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
