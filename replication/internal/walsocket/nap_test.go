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

// sender is a server's socket in virtual time: it fills at a rate until it is full.
type sender struct {
	rate    int // bytes per millisecond
	full    int // what the socket holds
	waiting int
	clock   time.Time
	slept   time.Duration
	mark    int  // the low-water mark
	unknown bool // the kernel does not tell
}

func (s *sender) bytes() int {
	if s.unknown {
		return -1
	}
	return s.waiting
}

func (s *sender) lowWater(n int) { s.mark = n }
func (s *sender) fix(bool)       {}

func (s *sender) pass(d time.Duration) {
	s.clock = s.clock.Add(d)
	s.waiting = min(s.full, s.waiting+int(d.Milliseconds())*s.rate)
}

func (s *sender) napper() *napper {
	return &napper{
		queue: s,
		sleep: func(d time.Duration) { s.slept += d; s.pass(d) },
		now:   func() time.Time { return s.clock },
	}
}

// rounds has the reader take what is there, once per work, and returns how long it napped and what each read brought.
func (s *sender) rounds(n *napper, rounds int, work time.Duration) (naps []time.Duration, reads []int) {
	for range rounds {
		s.slept = 0
		n.before()
		naps = append(naps, s.slept)
		if s.waiting == 0 {
			if s.mark > 1 {
				panic("a read waits with the low-water mark up")
			}
			s.pass(time.Millisecond)
		}
		got := min(s.waiting, ReadBuffer)
		reads = append(reads, got)
		s.waiting -= got
		n.after(got)
		s.pass(work)
	}
	return naps, reads
}

func TestNapDecisions(t *testing.T) {
	tests := map[string]struct {
		sender
		work   time.Duration // what handling one read takes
		atMost time.Duration // the longest nap, once settled
		least  time.Duration // the shortest
		bytes  int           // the least a read brings, once settled
	}{
		"low load: never": {sender: sender{rate: 500, full: 4 << 20}, atMost: 0},
		"busy: naps until the socket is full": {
			sender: sender{rate: 60 << 10, full: 200 << 10}, least: 5 * time.Millisecond, atMost: 6 * time.Millisecond,
			bytes: 200 << 10,
		},
		"queued by the sender: little longer": {
			sender: sender{rate: 600 << 10, full: 200 << 10}, least: 2 * time.Millisecond, atMost: 3 * time.Millisecond,
			bytes: 200 << 10,
		},
		"moderate: no longer than the limit": {
			sender: sender{rate: 10 << 10, full: 200 << 10}, least: napLimit, atMost: napLimit, bytes: 70 << 10,
		},
		"consumer is the slow one: a few slices": {
			sender: sender{rate: 60 << 10, full: 200 << 10}, work: 20 * time.Millisecond, least: 2 * napSlice,
			atMost: 2 * napSlice, bytes: 200 << 10,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.clock = time.Unix(1, 0)
			n := test.napper()
			test.rounds(n, 20, test.work) // settle
			naps, reads := test.rounds(n, 50, test.work)
			for i := range naps {
				require.LessOrEqual(t, naps[i], test.atMost)
				require.GreaterOrEqual(t, naps[i], test.least)
				require.GreaterOrEqual(t, reads[i], test.bytes)
			}
		})
	}
}

// TestNapEndsWithBurst: when the sender falls silent there is one useless nap, and the read after it waits with
// the low-water mark down, where the first byte wakes it.
func TestNapEndsWithBurst(t *testing.T) {
	s := sender{rate: 60 << 10, full: 220 << 10, clock: time.Unix(1, 0)}
	n := s.napper()
	s.rounds(n, 20, 0)
	s.rate = 0
	naps, _ := s.rounds(n, 3, 0)
	require.LessOrEqual(t, naps[0]+naps[1]+naps[2], 2*napLimit)
	require.Zero(t, naps[2])
	require.Equal(t, 1, s.mark)
}

func TestNapWithoutQueue(t *testing.T) {
	s := sender{rate: 60 << 10, full: 4 << 20, clock: time.Unix(1, 0), unknown: true}
	n := s.napper()
	naps, _ := s.rounds(n, 30, time.Millisecond)
	for _, d := range naps {
		require.Zero(t, d)
	}
}

// TestSocketWritesWithoutReader: small rows, each a segment of its own, overfill the receive buffer while the consumer
// is delayed. What is sent to the server meanwhile has to arrive all the same.
func TestSocketWritesWithoutReader(t *testing.T) {
	for _, rows := range []struct {
		bytes int
		every time.Duration
	}{
		// Each of these overfills a fixed one in a third of the runs.
		{90, 200 * time.Microsecond},
		{40, 100 * time.Microsecond},
		{40, 200 * time.Microsecond},
		{60, 50 * time.Microsecond},
		{80, 200 * time.Microsecond},
		{90, 200 * time.Microsecond},
	} {
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
			s.Stream()

			_, err = server.Write([]byte("a row"))
			require.NoError(t, err)
			_, err = s.Read(make([]byte, 1000))
			require.NoError(t, err)
			sendUntilFull(server, rows.bytes, rows.every)
			const updates = 20
			heard := make(chan int, 1)
			go func() {
				n, p := 0, make([]byte, 39)
				for ; n < updates; n++ {
					_ = server.SetReadDeadline(time.Now().Add(5 * time.Second))
					if _, err := io.ReadFull(server, p); err != nil {
						break
					}
				}
				heard <- n
			}()
			for range updates {
				_, err := s.Write(make([]byte, 39))
				require.NoError(t, err)
				time.Sleep(10 * time.Millisecond)
			}
			require.Equal(t, updates, <-heard, "updates that arrived")
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
