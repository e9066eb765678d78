package main

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWindowReachesTheServerHalfARoundTripLater(t *testing.T) {
	now := time.Now()
	w := &window{half: time.Millisecond}
	w.sample(now, 1000)
	require.Equal(t, 1000, w.room(now), "known from the handshake")
	w.took(1000)
	w.sample(now, 1500)
	require.Zero(t, w.room(now.Add(999*time.Microsecond)))
	require.Equal(t, 500, w.room(now.Add(time.Millisecond)))
}

func TestDelayTakesARoundTrip(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer upstream.Close()
	go func() {
		if conn, err := upstream.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer front.Close()
	client, err := net.Dial("tcp", front.Addr().String())
	require.NoError(t, err)
	conn, err := front.Accept()
	require.NoError(t, err)
	ended := make(chan error)
	const rtt = 20 * time.Millisecond
	go func() { ended <- delayConn(conn.(*net.TCPConn), upstream.Addr().String(), rtt/2) }()

	said := strings.Repeat("x", 1<<20) // more than a window
	began := time.Now()
	go func() { _, _ = io.WriteString(client, said) }()
	heard := make([]byte, len(said))
	_, err = io.ReadFull(client, heard[:1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), rtt)
	_, err = io.ReadFull(client, heard[1:])
	require.NoError(t, err)
	require.Equal(t, said, string(heard))
	require.NoError(t, client.Close())
	require.NoError(t, <-ended)
}
