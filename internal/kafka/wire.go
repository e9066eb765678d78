package kafka

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// maxResponse bounds what is accepted as the size of an answer. The largest answers are metadata of the topics in
// use; anything beyond is not Kafka on the other side.
const maxResponse = 64 << 20

// wire is a connection after dial: negotiated versions, request and response framing. It is not safe for
// concurrent use, except that one goroutine may write while another reads.
type wire struct {
	nc       net.Conn
	br       *bufio.Reader
	addr     string
	clientID string
	versions map[protocol.ApiKey]int16 // what both sides speak
	offered  map[protocol.ApiKey]versionRange
	lastID   int32 // correlation id of the last request; owned by whoever writes

	sasl    *SASL     // nil for none
	renewAt time.Time // when to authenticate again, zero for never; owned by whoever writes
}

func newWire(nc net.Conn, addr, clientID string) *wire {
	return &wire{nc: nc, br: bufio.NewReader(nc), addr: addr, clientID: clientID, versions: map[protocol.ApiKey]int16{}, offered: map[protocol.ApiKey]versionRange{}}
}

// version is the version to use for an API, an error when the two sides share none.
func (w *wire) version(key protocol.ApiKey) (int16, error) {
	v, ok := w.versions[key]
	if !ok {
		return 0, fmt.Errorf("the broker at %s does not offer a usable version of %s", w.addr, key)
	}
	return v, nil
}

// nextID returns the next correlation id.
func (w *wire) nextID() int32 {
	w.lastID = (w.lastID + 1) & 0x7fffffff
	return w.lastID
}

// roundTrip sends a request and waits for its answer, not longer than timeout. Only for connections without
// pipelining. After an error the connection is of no use.
func (w *wire) roundTrip(req protocol.Message, timeout time.Duration) (protocol.Message, error) {
	if err := w.renew(timeout); err != nil {
		return nil, err
	}
	version, err := w.version(req.ApiKey())
	if err != nil {
		return nil, err
	}
	if err := w.nc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	id := w.nextID()
	if err := protocol.WriteRequest(w.nc, version, id, w.clientID, req); err != nil {
		return nil, fmt.Errorf("send %s to %s: %w", req.ApiKey(), w.addr, err)
	}
	res, err := w.readResponse(req.ApiKey(), version, id)
	if err != nil {
		return nil, fmt.Errorf("receive %s from %s: %w", req.ApiKey(), w.addr, err)
	}
	return res, w.nc.SetDeadline(time.Time{})
}

// readResponse reads the answer with the given correlation id. The frame is judged before it is decoded, because
// kafka-go allocates whatever a length field says, and the far side may be no Kafka broker at all.
func (w *wire) readResponse(key protocol.ApiKey, version int16, id int32) (res protocol.Message, err error) {
	frame, err := w.br.Peek(8)
	if err != nil {
		return nil, noEOF(err)
	}
	size := int32(binary.BigEndian.Uint32(frame))
	if size < 4 || size > maxResponse {
		return nil, fmt.Errorf("this is no Kafka answer (frame of %d bytes); does the port expect TLS?", size)
	}
	if got := int32(binary.BigEndian.Uint32(frame[4:])); got != id {
		return nil, fmt.Errorf("answer %d where answer %d was due", got, id)
	}
	if key == protocol.ApiVersions {
		if err := w.judgeApiVersions(size); err != nil {
			return nil, err
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed %s answer: %v", key, r)
		}
	}()
	body := io.LimitReader(w.br, int64(size)+4)
	if _, res, err = protocol.ReadResponse(body, key, version); err != nil {
		return nil, noEOF(err)
	}
	_, err = io.Copy(io.Discard, body)
	return res, err
}

// judgeApiVersions checks the first answer of a connection in full: version 0 is a code and an array of three int16 each. Who
// gives that right is a broker, and its other answers are believed.
func (w *wire) judgeApiVersions(size int32) error {
	const head = 4 + 4 + 2 + 4 // size, correlation id, code, number of entries
	frame, err := w.br.Peek(head)
	if err != nil {
		return noEOF(err)
	}
	if n := int32(binary.BigEndian.Uint32(frame[head-4:])); n < 0 || 6*int64(n) != int64(size)-(head-4) {
		return fmt.Errorf("this is no Kafka answer (%d entries in %d bytes); does the port expect TLS?", n, size)
	}
	return nil
}

// noEOF names the plainest of ends.
func noEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the broker closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return err
}
