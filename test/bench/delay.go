package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

const delayCommand = "delay"

// delayed puts a longer round trip between clients and Postgres.
func delayed(rtt time.Duration) func(context.Context, *bed) (func(), error) {
	return func(ctx context.Context, b *bed) (func(), error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		n, err := port.Free()
		if err != nil {
			return nil, err
		}
		address := "127.0.0.1:" + strconv.Itoa(n)
		p, err := startProcess(ctx, exec.Command(self, delayCommand, "-listen", address, "-upstream", b.postgres.Addr(),
			"-rtt", rtt.String()))
		if err != nil {
			return nil, err
		}
		b.clientDSN = b.postgres.DSNVia(address, "postgres")
		undo := func() {
			b.clientDSN = b.dsn
			p.Kill()
		}
		if err := b.awaitClientDSN(ctx); err != nil {
			undo()
			return nil, fmt.Errorf("%w: %s", err, p.output)
		}
		return undo, nil
	}
}

// delay is a proxy in a process of its own, so that its CPU counts as neither side's. It stands for a line that is long
// but not narrow. Besides the bytes it delays the news of the client's receive window: as on a long line, no more may
// be under way or unread than the client's buffer holds, and that the client has read reaches the server half a round
// trip later. Otherwise the proxy's own buffers would make up for a client whose buffer is too small for the line.
func delay(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(delayCommand, flag.ContinueOnError)
	listen := flags.String("listen", "", "")
	upstream := flags.String("upstream", "", "")
	rtt := flags.Duration("rtt", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			if err := delayConn(conn.(*net.TCPConn), *upstream, *rtt/2); err != nil {
				fmt.Fprintln(os.Stderr, "delay:", err)
			}
		}()
	}
}

// proxyBuffer bounds what waits at the proxy's end of the server's connection, beyond the window.
const proxyBuffer = 128 << 10

func delayConn(client *net.TCPConn, upstream string, half time.Duration) error {
	defer client.Close()
	c, err := net.Dial("tcp", upstream)
	if err != nil {
		return err
	}
	server := c.(*net.TCPConn)
	defer server.Close()
	if err := server.SetReadBuffer(proxyBuffer); err != nil {
		return err
	}
	raw, err := client.SyscallConn()
	if err != nil {
		return err
	}
	w := &window{half: half}
	measured := func() error {
		edge, err := windowEdge(raw)
		w.sample(time.Now(), edge)
		return err
	}
	if err := measured(); err != nil {
		return err
	}
	ended := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for measured() == nil && !isClosed(ended) {
			pause(max(half/4, 50*time.Microsecond))
		}
	})
	all.Go(func() {
		carry(client, server, half, wide{})
		_ = server.Close() // the client has ended: nothing is left to bring it
	})
	carry(server, client, half, w)
	_ = client.Close()
	close(ended)
	all.Wait()
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const carried = 64 << 10 // bytes, at most, that are read at a time

// gate says how many bytes may be read.
type gate interface {
	room(now time.Time) int
	took(n int)
}

// wide is a gate for a direction that carries little.
type wide struct{}

func (wide) room(time.Time) int { return carried }
func (wide) took(int)           {}

type parcel struct {
	bytes []byte
	due   time.Time
}

// carry hands on what it reads after half a round trip, and reads no more than the gate lets through.
func carry(from, to *net.TCPConn, half time.Duration, g gate) {
	queue := make(chan parcel, 1<<14)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range queue {
			pause(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close() // ends the reader below
			}
		}
		_ = to.CloseWrite()
	})
	buf := make([]byte, carried)
	for {
		n := min(g.room(time.Now()), len(buf))
		if n <= 0 {
			pause(50 * time.Microsecond)
			if from.SetReadDeadline(time.Time{}) != nil {
				break // closed
			}
			continue
		}
		n, err := from.Read(buf[:n])
		if n > 0 {
			g.took(n)
			queue <- parcel{append([]byte(nil), buf[:n]...), time.Now().Add(half)}
		}
		if err != nil {
			break
		}
	}
	close(queue)
	writer.Wait()
}

// window is what the server knows of the client's receive window: the position up to which it may send, as of half a
// round trip ago.
type window struct {
	half time.Duration

	mu    sync.Mutex
	news  []sample // in transit, oldest first
	edge  uint64   // arrived
	taken uint64
	known bool
}

type sample struct {
	at   time.Time
	edge uint64
}

// sample notes the position up to which the client has room. The first is known at once: it came with the handshake.
func (w *window) sample(now time.Time, edge uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known {
		w.known, w.edge = true, edge
		return
	}
	last := w.edge
	if n := len(w.news); n > 0 {
		last = w.news[n-1].edge
	}
	if edge > last { // a window never shrinks
		w.news = append(w.news, sample{now, edge})
	}
}

func (w *window) room(now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.news) > 0 && now.Sub(w.news[0].at) >= w.half {
		w.edge = w.news[0].edge
		w.news = w.news[1:]
	}
	return int(w.edge) - int(w.taken)
}

func (w *window) took(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken += uint64(n)
}
