package proxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
)

// produceKey is the api key of Produce (https://kafka.apache.org/protocol#protocol_api_keys).
const produceKey = 0

type kafkaHooks struct {
	mu   sync.Mutex
	hold *Hold
	seen map[int16]int // requests by api key
}

// kafkaConn remembers which answers a connection still owes.
type kafkaConn struct {
	mu    sync.Mutex
	asked map[int32]Asked // by correlation id
}

// Asked is what a request is for.
type Asked struct{ Key, Version int16 }

// Hold is a Produce response that the broker has sent and the client has not seen: the records are appended, the ack is
// unknown.
type Hold struct {
	held    chan struct{}
	release chan struct{}
	once    sync.Once
}

// HoldProduceResponse holds the next Produce response, and with it everything after it on that connection. One at a
// time; Kafka protocol only.
func (p *Proxy) HoldProduceResponse() *Hold {
	h := &Hold{held: make(chan struct{}), release: make(chan struct{})}
	p.kafka.mu.Lock()
	defer p.kafka.mu.Unlock()
	p.kafka.hold = h
	return h
}

// Wait returns when a response is held.
func (h *Hold) Wait(ctx context.Context) error {
	select {
	case <-h.held:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no Produce response came: %w", ctx.Err())
	}
}

// Release lets the response through. After a Reset of the proxy there is nothing left to release.
func (h *Hold) Release() { h.once.Do(func() { close(h.release) }) }

// Requests is how many requests with these api keys have passed, of all where none is given. Kafka protocol only.
func (p *Proxy) Requests(apiKeys ...int16) int {
	p.kafka.mu.Lock()
	defer p.kafka.mu.Unlock()
	n := 0
	for key, seen := range p.kafka.seen {
		if len(apiKeys) == 0 || slices.Contains(apiKeys, key) {
			n += seen
		}
	}
	return n
}

func (h *kafkaHooks) count(apiKey int16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[int16]int{}
	}
	h.seen[apiKey]++
}

// kafkaRequests notes requests by their correlation id: int32 size, int16 api key, int16 version, int32 correlation id.
func (c *conn) kafkaRequests(r io.Reader, emit func([]byte) error) error {
	head := make([]byte, 12)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		be := binary.BigEndian
		asked := Asked{Key: int16(be.Uint16(head[4:])), Version: int16(be.Uint16(head[6:]))}
		c.proxy.kafka.count(asked.Key)
		c.kafka.mu.Lock()
		if c.kafka.asked == nil {
			c.kafka.asked = map[int32]Asked{}
		}
		c.kafka.asked[int32(be.Uint32(head[8:]))] = asked
		c.kafka.mu.Unlock()
		if err := emit(head); err != nil {
			return err
		}
		rest := int64(be.Uint32(head)) - 8
		if rest < 0 {
			return fmt.Errorf("a Kafka request of %d bytes", rest+8)
		}
		if err := copyN(emit, r, rest); err != nil {
			return err
		}
	}
}

// kafkaResponses holds the answer a test waits for, or has it replaced: int32 size, int32 correlation id.
func (c *conn) kafkaResponses(r io.Reader, emit func([]byte) error) error {
	head := make([]byte, 8)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		id := int32(binary.BigEndian.Uint32(head[4:]))
		c.kafka.mu.Lock()
		asked := c.kafka.asked[id]
		delete(c.kafka.asked, id)
		c.kafka.mu.Unlock()
		if asked.Key == produceKey {
			if err := c.holdIfWanted(); err != nil {
				return err
			}
		}
		rest := int64(binary.BigEndian.Uint32(head)) - 4
		if rest < 0 {
			return fmt.Errorf("a Kafka response of %d bytes", rest+4)
		}
		if lie := c.proxy.lies(); lie != nil {
			if err := c.tell(lie, Answer{Asked: asked}, head, rest, r, emit); err != nil {
				return err
			}
			continue
		}
		if err := emit(head); err != nil {
			return err
		}
		if err := copyN(emit, r, rest); err != nil {
			return err
		}
	}
}

func (c *conn) holdIfWanted() error {
	hooks := &c.proxy.kafka
	hooks.mu.Lock()
	h := hooks.hold
	hooks.hold = nil
	hooks.mu.Unlock()
	if h == nil {
		return nil
	}
	close(h.held)
	select {
	case <-h.release:
		return nil
	case <-c.done:
		return errEnded
	}
}
