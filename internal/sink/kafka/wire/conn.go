package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// MaxResponse bounds the size of an answer. The largest answers are metadata of the topics in
// use; anything beyond is not Kafka on the other side.
const MaxResponse = 64 << 20

// MaxDecoded bounds the memory of a decoded answer. The metadata of a million partitions take less.
const MaxDecoded = 128 << 20

// Conn is a connection after dial: negotiated versions, request and response framing. It is not safe for
// concurrent use, except that one goroutine may write while another reads.
type Conn struct {
	Net      net.Conn
	Reader   *bufio.Reader
	Addr     string
	ClientID string
	versions map[protocol.ApiKey]int16 // that both sides speak
	offered  map[protocol.ApiKey]versionRange
	lastID   int32 // correlation id of the last request; owned by the goroutine that writes

	sasl    *SASL     // nil for none
	renewAt time.Time // when to authenticate again, zero for never; owned by the goroutine that writes
	renewBy time.Time // when that can no longer wait for a token; likewise

	opening  bool          // Dial is not through
	answered *atomic.Int64 // see Answers
}

func newWire(nc net.Conn, addr, clientID string) *Conn {
	return &Conn{
		answered: new(atomic.Int64),
		Net:      nc, Reader: bufio.NewReader(nc), Addr: addr, ClientID: clientID,
		versions: map[protocol.ApiKey]int16{}, offered: map[protocol.ApiKey]versionRange{},
	}
}

// Close closes the connection.
func (w *Conn) Close() error { return w.Net.Close() }

// Version is the version to use for an API, an error when the two sides share none.
func (w *Conn) Version(key protocol.ApiKey) (int16, error) {
	v, ok := w.versions[key]
	if !ok {
		return 0, &NotOfferedError{w.Addr, key}
	}
	return v, nil
}

// NotOfferedError is for an API, or a version of it, that a broker does not have.
type NotOfferedError struct {
	Addr string
	Key  protocol.ApiKey
}

func (e *NotOfferedError) Error() string {
	return fmt.Sprintf("the broker at %s does not offer a usable version of %s", e.Addr, e.Key)
}

// Needs fails where the version to use is below since, the first that has what the caller needs.
func (w *Conn) Needs(key protocol.ApiKey, since int16) error {
	if v, err := w.Version(key); err != nil || v < since {
		return &NotOfferedError{w.Addr, key}
	}
	return nil
}

// NextID returns the next correlation id.
func (w *Conn) NextID() int32 {
	w.lastID = (w.lastID + 1) & 0x7fffffff
	return w.lastID
}

// RoundTrip sends a request and waits for its answer, not longer than timeout. Only for connections without
// pipelining. After an error the connection is of no use.
func (w *Conn) RoundTrip(req protocol.Message, timeout time.Duration) (protocol.Message, error) {
	if err := w.renew(timeout); err != nil {
		return nil, err
	}
	version, err := w.Version(req.ApiKey())
	if err != nil {
		return nil, err
	}
	if err := w.Net.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	id := w.NextID()
	if err := protocol.WriteRequest(w.Net, version, id, w.ClientID, req); err != nil {
		return nil, fmt.Errorf("send %s to %s: %w", req.ApiKey(), w.Addr, w.timely(err, timeout))
	}
	res, err := w.ReadResponse(req.ApiKey(), version, id)
	if err != nil {
		return nil, fmt.Errorf("receive %s from %s: %w", req.ApiKey(), w.Addr, w.timely(err, timeout))
	}
	return res, w.Net.SetDeadline(time.Time{})
}

// ReadResponse reads the answer with the given correlation id. All of it is judged before kafka-go decodes it: the far
// side may not be a Kafka broker, and no broker is believed either.
func (w *Conn) ReadResponse(key protocol.ApiKey, version int16, id int32) (res protocol.Message, err error) {
	size, err := w.header(id)
	if err != nil {
		return nil, err
	}
	frame, err := ReadFull(w.Reader, nil, int(size)+4)
	if err != nil {
		return nil, err
	}
	if err := Judge(frame[8:], key, version); err != nil {
		return nil, fmt.Errorf("malformed %s answer: %w", key, err)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed %s answer: %v", key, r)
		}
	}()
	_, res, err = protocol.ReadResponse(bytes.NewReader(frame), key, version)
	return res, err
}

// firstRead is what ReadFull makes room for before the first byte has come.
const firstRead = 64 << 10

// ReadFull reads n bytes into the memory of buf. It makes room as bytes come, so a length alone costs no memory.
func ReadFull(r io.Reader, buf []byte, n int) ([]byte, error) {
	buf = buf[:0]
	for len(buf) < n {
		have := len(buf)
		buf = slices.Grow(buf, min(n-have, max(cap(buf)-have, have, firstRead)))
		buf = buf[:min(n, cap(buf))]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			return nil, NoEOF(err)
		}
	}
	return buf, nil
}

// header judges the start of an answer, without reading on, and returns its size.
func (w *Conn) header(id int32) (size int32, err error) {
	frame, err := w.Reader.Peek(8)
	if err != nil {
		return 0, NoEOF(err)
	}
	size = int32(binary.BigEndian.Uint32(frame))
	if size < 4 || size > MaxResponse {
		return 0, fmt.Errorf("this is not a Kafka answer (frame of %d bytes); does the port expect TLS?", size)
	}
	if got := int32(binary.BigEndian.Uint32(frame[4:])); got != id {
		return 0, fmt.Errorf("answer %d where answer %d was due", got, id)
	}
	w.answered.Store(time.Now().UnixNano())
	return size, nil
}

// NoEOF names the plainest of ends.
func NoEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the broker closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return err
}
