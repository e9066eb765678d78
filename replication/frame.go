package replication

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication/internal/walsocket"
)

const (
	// frameBuffer is the read buffer's size.
	frameBuffer = walsocket.ReadBuffer
	// maxFrame is the longest message there can be: the server builds each in one allocation, which it caps at 1 GiB
	// (MaxAllocSize). A longer length field means that the two sides have lost step.
	maxFrame = 1<<30 + 1<<10
	// frameHeader is a message's type byte and its length, which counts itself but not the type (Postgres docs 55.7).
	frameHeader = 5
	// xlogHeader is what precedes the message of the plugin in CopyData: 'w', two positions and a time (docs 55.4).
	xlogHeader = 25
)

// frames cuts the server's messages out of a byte stream, in place: a message is handed out as a slice of the read
// buffer. The buffer grows for a message that does not fit, but only as its bytes arrive, and falls back to its
// first size after it.
type frames struct {
	r      io.Reader
	buf    []byte
	rp, wp int    // buf[rp:wp] is read and not yet handed out
	first  []byte // the buffer to fall back to

	long   int // bytes: a longer message of the stream is handed out in its short form
	left   int // bytes of such a message still to come
	header [xlogHeader]byte
	cutter pgoutput.Cutter

	messages int // handed out so far
}

// shortened is the type of a CopyData message whose XLogData is in the short form of a Cutter. No server sends it.
const shortened = 0

// newFrames cuts what r brings. long is 0 for no bound.
func newFrames(r io.Reader, long int64) *frames {
	b := make([]byte, frameBuffer)
	f := &frames{r: r, buf: b, first: b, long: maxFrame}
	if long > 0 && long < maxFrame {
		f.long = max(int(long), frameBuffer)
	}
	return f
}

// next returns a message's type and body, valid until the next call. An error of the reader leaves the state intact,
// so that reading can go on after a deadline.
func (f *frames) next() (typ byte, body []byte, err error) {
	for {
		if f.left > 0 {
			return f.shorten()
		}
		n, err := f.length()
		if err != nil {
			return 0, nil, err
		}
		if n > f.long {
			if err := f.begin(n); err != nil {
				return 0, nil, err
			}
			continue
		}
		if f.wp-f.rp >= n {
			msg := f.buf[f.rp : f.rp+n : f.rp+n]
			f.rp += n
			f.messages++
			return msg[0], msg[frameHeader:], nil
		}
		if err := f.fill(n); err != nil {
			return 0, nil, err
		}
	}
}

// length is the next message's whole length, or the header's until the header is complete.
func (f *frames) length() (int, error) {
	if f.wp-f.rp < frameHeader {
		return frameHeader, nil
	}
	n := binary.BigEndian.Uint32(f.buf[f.rp+1:])
	if n < 4 || n > maxFrame {
		return 0, &frameError{typ: f.buf[f.rp], length: n}
	}
	return int(n) + 1, nil
}

// begin makes room for the header of a long message, and takes it off. Only the stream's messages may be long.
func (f *frames) begin(n int) error {
	const head = frameHeader + xlogHeader
	if f.wp-f.rp < head {
		return f.fill(head)
	}
	b := f.buf[f.rp:]
	if b[0] != 'd' || b[frameHeader] != 'w' {
		return &frameError{typ: b[0], length: uint32(n - 1)}
	}
	f.rp += copy(f.header[:], b[frameHeader:]) + frameHeader
	f.left = n - head
	f.cutter.Reset()
	return nil
}

// shorten reads a long message to its end.
func (f *frames) shorten() (typ byte, body []byte, err error) {
	for {
		k := min(f.left, f.wp-f.rp)
		f.cutter.Write(f.buf[f.rp : f.rp+k])
		f.rp, f.left = f.rp+k, f.left-k
		if f.left == 0 {
			f.messages++
			return shortened, append(f.header[:], f.cutter.Short()...), nil
		}
		if err := f.fill(frameHeader); err != nil {
			return 0, nil, err
		}
	}
}

// fill reads once, as much as there is room for. n is the length the message at hand needs.
func (f *frames) fill(n int) error {
	switch {
	case f.rp == f.wp:
		f.rp, f.wp = 0, 0
		f.buf = f.first
	case f.rp > 0:
		// The rest is part of one message: move it to the front, so that one read can take a whole bufferful.
		into := f.buf
		if n <= len(f.first) {
			into = f.first
		}
		f.wp = copy(into, f.buf[f.rp:f.wp])
		f.rp = 0
		f.buf = into
	}
	if f.wp == len(f.buf) {
		b := make([]byte, min(n, 2*len(f.buf)))
		copy(b, f.buf)
		f.buf = b
	}
	k, err := f.r.Read(f.buf[f.wp:])
	f.wp += k
	if k > 0 {
		return nil // the next read returns an error that came along again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	if err == io.EOF && f.wp > f.rp {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameError is a length field that no server writes.
type frameError struct {
	typ    byte
	length uint32
}

func (e *frameError) Error() string {
	return fmt.Sprintf("protocol message %q with an impossible length of %d bytes", e.typ, e.length)
}

// messageReader hands out a byte stream without ever reading past the end of the message it is in. pgconn's own
// reader takes as much as its buffer holds; with this one below it, it has nothing left over when the connection is
// taken from it, and the stream's first bytes are where the stream looks for them.
type messageReader struct {
	r      io.Reader
	header [frameHeader]byte
	have   int   // bytes of header read
	left   int64 // bytes of the body still to come
}

func (m *messageReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if m.have < frameHeader {
		n, err := m.r.Read(p[:min(len(p), frameHeader-m.have)])
		m.have += copy(m.header[m.have:], p[:n])
		if m.have == frameHeader {
			m.left = int64(binary.BigEndian.Uint32(m.header[1:])) - 4
			m.next()
		}
		return n, err
	}
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	m.next()
	return n, err
}

// next starts over when the body has been read. An impossible length is left to pgconn to complain about.
func (m *messageReader) next() {
	if m.left <= 0 {
		m.have, m.left = 0, 0
	}
}

// between reports whether the last message has been read to its end and none has been begun.
func (m *messageReader) between() bool { return m.have == 0 }
