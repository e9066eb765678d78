package replication

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// dribble reads one byte at a time.
type dribble struct{ r io.Reader }

func (d *dribble) Read(p []byte) (int, error) {
	if len(p) > 1 {
		p = p[:1]
	}
	return d.r.Read(p)
}

// statusUpdate is a standby status update as a walsender sees it.
type statusUpdate struct {
	write, flush, apply lsn.LSN
	request             bool
	after               time.Duration // since the fake's start
}

// peer is the far end of a stream: it keeps what it receives and sends what the test wants. For use in a synctest
// bubble.
type peer struct {
	t     testing.TB
	conn  net.Conn
	begun time.Time

	mu       sync.Mutex
	updates  []statusUpdate
	copyDone bool
	onDone   func() // what CopyDone leads to
	ended    chan struct{}
}

// streamTo makes a Stream whose server is the returned peer.
func streamTo(ctx context.Context, t testing.TB, cfg Config, id Identity) (*Stream, *peer) {
	cfg.DSN = func() (string, error) { return "", nil }
	cfg.Slot, cfg.Publication = "s", "p"
	if cfg.Confirmed == nil {
		cfg.Confirmed = func() lsn.LSN { return 0 }
	}
	checked, err := cfg.check()
	require.NoError(t, err)
	near, far := net.Pipe()
	p := &peer{t: t, conn: far, begun: time.Now(), ended: make(chan struct{})}
	go p.listen()
	s := newStream(ctx, &runner{cfg: checked, silence: checked.Silence}, near, near, id)
	t.Cleanup(func() {
		s.close()
		_ = far.Close()
		<-p.ended
	})
	return s, p
}

func (p *peer) listen() {
	defer close(p.ended)
	f := newFrames(p.conn, 0)
	for {
		typ, body, err := f.next()
		if err != nil {
			return
		}
		p.mu.Lock()
		switch typ {
		case 'd':
			p.updates = append(p.updates, statusUpdate{
				write: lsn.LSN(binary.BigEndian.Uint64(body[1:])), flush: lsn.LSN(binary.BigEndian.Uint64(body[9:])),
				apply: lsn.LSN(binary.BigEndian.Uint64(body[17:])), request: body[33] == 1, after: time.Since(p.begun),
			})
		case 'c':
			p.copyDone = true
			if p.onDone != nil {
				go p.onDone()
			}
		}
		p.mu.Unlock()
	}
}

// seen returns the updates since the last call.
func (p *peer) seen() []statusUpdate {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.updates
	p.updates = nil
	return u
}

func (p *peer) send(messages ...[]byte) {
	for _, m := range messages {
		if _, err := p.conn.Write(m); err != nil {
			return
		}
	}
}

func message(typ byte, body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{typ}, uint32(len(body)+4)), body...)
}

func keepalive(end lsn.LSN, reply bool) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'k'}, uint64(end))
	b = append(b, make([]byte, 9)...)
	if reply {
		b[17] = 1
	}
	return message('d', b...)
}

func xlogData(at lsn.LSN, body ...byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'w'}, uint64(at))
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = append(b, make([]byte, 8)...)
	return message('d', append(b, body...)...)
}

func commitAt(at lsn.LSN) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, uint64(at-1))
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	return xlogData(at, append(b, make([]byte, 8)...)...)
}

func errorResponse(code, text string) []byte {
	b, err := (&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: text}).Encode(nil)
	if err != nil {
		panic(err)
	}
	return b
}

func notice(code, routine, text string) []byte {
	b, err := (&pgproto3.NoticeResponse{Severity: "WARNING", Code: code, Message: text, Routine: routine}).Encode(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// cell is a Confirmed the test sets.
type cell struct{ atomic.Uint64 }

func (c *cell) lsn() lsn.LSN { return lsn.LSN(c.Load()) }
