package reader

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Guard returns a dial function for a client whose decoder believes the lengths and counts in an answer, as kafka-go's
// does. Its connections judge each answer before they hand it over, and have the TLS of the cluster already.
func Guard(c wire.Cluster) func(ctx context.Context, network, address string) (net.Conn, error) {
	c.SetDefaults()
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := c.DialNet(ctx, address)
		if err != nil {
			return nil, err
		}
		return &guarded{Conn: conn, asked: map[int32]asked{}}, nil
	}
}

// guarded is a connection of which one goroutine reads at a time, and one writes.
type guarded struct {
	net.Conn

	mu    sync.Mutex
	asked map[int32]asked // requests without an answer, by correlation id

	head  []byte // the first bytes of the request that is being written
	skip  int    // the bytes of it that come after them
	ready []byte // the rest of an answer that was judged
	bad   error  // of an answer that is not handed over; there is no next one

	fetched fetchBuffer
}

type asked struct {
	key     protocol.ApiKey
	version int16
}

const (
	// mostAsked bounds the requests in flight: a client waits for its answers.
	mostAsked = 1000
	// mostPlain bounds an answer without records. A consumer's are about its topics; the metadata of 200,000 partitions
	// take less.
	mostPlain = 16 << 20
)

// The head of a request: size, key, version, correlation id.
const headSize = 4 + 2 + 2 + 4

// Write notes each request before it is sent.
func (g *guarded) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if n := min(g.skip, len(rest)); n > 0 {
			g.skip, rest = g.skip-n, rest[n:]
			continue
		}
		n := min(headSize-len(g.head), len(rest))
		if g.head, rest = append(g.head, rest[:n]...), rest[n:]; len(g.head) < headSize {
			break
		}
		if err := g.note(g.head); err != nil {
			return 0, err
		}
		g.head = g.head[:0]
	}
	return g.Conn.Write(b)
}

func (g *guarded) note(head []byte) error {
	be := binary.BigEndian
	g.skip = int(be.Uint32(head)) - (headSize - 4)
	id := int32(be.Uint32(head[8:]))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.skip < 0 || len(g.asked) == mostAsked {
		return fmt.Errorf("request %d is not one of Kafka's, or too many have no answer", id)
	}
	g.asked[id] = asked{protocol.ApiKey(be.Uint16(head[4:])), int16(be.Uint16(head[6:]))}
	return nil
}

// Read hands over answers that were judged. A deadline that passes before an answer has begun spoils nothing.
func (g *guarded) Read(p []byte) (int, error) {
	if g.bad != nil {
		return 0, g.bad
	}
	if len(g.ready) == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, g.ready)
	g.ready = g.ready[n:]
	return n, nil
}

// next reads and judges an answer.
func (g *guarded) next() error {
	var head [8]byte
	n, err := io.ReadFull(g.Conn, head[:])
	if err != nil {
		if n > 0 {
			g.bad = err
		}
		return err
	}
	if g.ready, g.bad = g.judge(head[:]); g.bad != nil {
		g.ready = nil
	}
	return g.bad
}

func (g *guarded) judge(head []byte) ([]byte, error) {
	left, id, err := answerHead(head)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	of, known := g.asked[id]
	delete(g.asked, id)
	g.mu.Unlock()
	if !known {
		return nil, wire.DataError(fmt.Sprintf("answer %d to no request", id))
	}
	if of.key != protocol.Fetch && left > mostPlain {
		return nil, wire.DataError(fmt.Sprintf("%s answer of %d bytes", of.key, left))
	}
	body, err := wire.ReadFull(g.Conn, nil, left)
	if err != nil {
		return nil, err
	}
	switch {
	case of.version > of.key.MaxVersion(): // not kafka-go's decoder, which has no such version
	case of.key == protocol.Fetch:
		err = g.fetched.judge(body, of.version)
	default:
		err = wire.Judge(body, of.key, of.version)
	}
	if err == nil && of == (asked{key: protocol.SyncGroup}) {
		err = judgeAssignment(body)
	}
	if err != nil {
		return nil, fmt.Errorf("malformed %s answer: %w", of.key, err)
	}
	return append(head, body...), nil
}

// judgeAssignment refuses a member's assignment that says it has more topics than it has bytes for: kafka-go makes room
// for as many. It lies in the answer as bytes, after an error code.
func judgeAssignment(body []byte) error {
	c := wire.NewCursor(body)
	c.Int16()
	a := wire.NewCursor(c.Bytes(max(int(c.Int32()), 0)))
	if a.Left() == 0 {
		return c.Err()
	}
	a.Int16() // version
	if n := int(a.Int32()); n < 0 || n > a.Left()/6 {
		return wire.DataError(fmt.Sprintf("an assignment of %d topics in %d bytes", n, a.Left()))
	}
	return a.Err()
}

func takeAll(*Message) bool { return true }

// judge takes the records of an answer to Fetch apart, as the client will: batches that expand beyond their bound, or
// say that they have more records than they have, are refused.
func (f *fetchBuffer) judge(body []byte, version int16) error {
	if version < fetchMin || version > fetchMax {
		return wire.DataError(fmt.Sprintf("version %d is not read", version))
	}
	a, err := parseFetch(body, version)
	if err != nil {
		return err
	}
	for rest := a.records; len(rest) > 0; {
		h, n, err := batchAt(rest)
		if err != nil || n == 0 { // cut off: the client leaves it out
			return err
		}
		all := Span{End: h.last + 1}
		if _, err := f.records(h, rest[wire.HeaderSize:n], all, h.base, takeAll); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}
