package walsocket

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSocketWritesWithoutReader: small rows, each a segment of its own, overfill the receive buffer while the consumer
// is delayed. What is sent to the server meanwhile has to arrive all the same.
//
// Bug (stream): While Kafka was slow or away, status updates could stay in the socket: small rows overfilled the fixed
// receive buffer, the kernel closed the window and dropped the acknowledgments too. Cost: the server ended the session
// after `wal_sender_timeout`, again and again (found with 5 s).
func TestSocketWritesWithoutReader(t *testing.T) {
	loads := []struct {
		bytes int
		every time.Duration
	}{
		// Each of these overfills a fixed one in a third of the runs. The first is the fastest.
		{60, 50 * time.Microsecond},
		{90, 200 * time.Microsecond},
		{40, 100 * time.Microsecond},
		{40, 200 * time.Microsecond},
		{80, 200 * time.Microsecond},
		{90, 200 * time.Microsecond},
	}
	if testing.Short() {
		loads = loads[:1] // it takes seconds to fill the queues at the others' pace
	}
	for _, rows := range loads {
		t.Run(fmt.Sprintf("%d bytes every %s", rows.bytes, rows.every), func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			client, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			defer client.Close()
			server, err := ln.Accept()
			require.NoError(t, err)
			defer server.Close()
			require.NoError(t, server.(*net.TCPConn).SetWriteBuffer(64<<10))
			s := New(client)
			s.Stream(func() {}, func() int { return 0 })

			_, err = server.Write([]byte("a row"))
			require.NoError(t, err)
			_, err = s.Read(make([]byte, 1000))
			require.NoError(t, err)
			sendUntilFull(server, rows.bytes, rows.every)
			const updates = 20
			_ = server.SetReadDeadline(time.Now().Add(30 * time.Second))
			for i := range updates {
				_, err := s.Write(make([]byte, 39))
				require.NoError(t, err)
				_, err = io.ReadFull(server, make([]byte, 39))
				require.NoError(t, err, "update %d arrives", i)
			}
		})
	}
}

// sendUntilFull sends rows until the socket takes no more. Without a pause between them the kernel would put them
// together.
func sendUntilFull(c net.Conn, size int, every time.Duration) {
	row := make([]byte, size)
	for {
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Write(row); err != nil {
			return
		}
		for t := time.Now(); time.Since(t) < every; {
			runtime.Gosched() // a sleep would last too long
		}
	}
}

func TestSocketShortReadsFromOneLongRead(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		_, _ = far.Write(bytes.Repeat([]byte("abc"), 100))
		_ = far.Close()
	}()
	s := New(near)
	var got []byte
	p := make([]byte, 7)
	for {
		n, err := s.Read(p)
		got = append(got, p[:n]...)
		if err != nil {
			break
		}
	}
	require.Equal(t, strings.Repeat("abc", 100), string(got))
}

// kernel is a queue whose content the test sets.
type kernel struct {
	have, mark int
	fixed      bool
}

func (k *kernel) bytes() int     { return k.have }
func (k *kernel) lowWater(n int) { k.mark = n }
func (k *kernel) fix(b bool)     { k.fixed = b }

// reading is a connection that looks at the socket's state in each read.
type reading struct {
	net.Conn
	look func()
}

func (r reading) Read(p []byte) (int, error) {
	r.look()
	return min(len(p), 100<<10), nil
}

// TestSocketSleepsWhenDry: with much in the kernel it reads on. When it is dry it says so, sleeps with the low-water
// mark up, and reads with the mark down if the read may wait.
func TestSocketSleepsWhenDry(t *testing.T) {
	k := &kernel{mark: 1}
	var waits, sleeps int
	var during []int
	after := 0
	s := New(reading{look: func() { require.True(t, k.fixed) }})
	s.queue, s.onWait, s.messages = k, func() { waits++ }, func() int { return 0 }
	s.pause = func(time.Duration) { sleeps++; during = append(during, k.mark); k.have = after }
	s.pace = pacer{limit: first, rate: 100 << 20, started: time.Now().Add(time.Hour)}
	p := make([]byte, 1<<20)
	read := func(have int) {
		k.have = have
		_, err := s.Read(p)
		require.NoError(t, err)
		require.False(t, k.fixed)
	}
	read(enough)
	require.Zero(t, waits+sleeps, "there is more")

	after = 300 << 10
	read(1000)
	require.Equal(t, []int{1, 1}, []int{waits, sleeps})
	require.Equal(t, []int{receiveBuffer}, during)
	require.Equal(t, receiveBuffer, k.mark, "the read does not wait")

	after = 0
	s.Conn = reading{look: func() { require.Equal(t, 1, k.mark, "the first byte ends the read") }}
	read(1000)
	require.Equal(t, 2, sleeps)

	after, waits = 300<<10, 0
	s.Conn = reading{look: func() {}}
	s.Late(true)
	read(1000)
	require.Equal(t, []int{0, 3}, []int{waits, sleeps}, "a backlog may wait for company")
	s.waited = s.waited.Add(-backlogWait)
	read(1000)
	require.Equal(t, []int{1, 4}, []int{waits, sleeps}, "but not for long")
	waits, sleeps = 0, 3
	after = 0
	read(1000)
	require.Equal(t, []int{1, 4}, []int{waits, sleeps}, "but not for the server")
	after, s.pace.rate = 300<<10, 1000
	read(1000)
	require.Equal(t, []int{2, 5}, []int{waits, sleeps}, "and what trickles in late is not a backlog")
	s.Late(false)

	s.pace.rate = 0
	waits, sleeps = 0, 2
	read(0)
	require.Equal(t, []int{1, 2}, []int{waits, sleeps}, "a server that is not busy")
	k.mark, s.raised = receiveBuffer, true
	read(-1)
	require.Equal(t, 1, k.mark, "a kernel that cannot say")
}
