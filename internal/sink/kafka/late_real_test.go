//go:build e2e

package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// postman keeps the first EndTxn back and cuts its connection. It brings it to the coordinator when the next
// transaction is complete, just before the EndTxn of that transaction.
type postman struct {
	mu     sync.Mutex
	letter []byte
	seen   int
	code   chan int16
}

func (p *postman) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &postedConn{nc, p, addr}, err
}

type postedConn struct {
	net.Conn
	p    *postman
	addr string
}

func (c *postedConn) Write(b []byte) (int, error) {
	if len(b) < 8 || binary.BigEndian.Uint16(b[4:]) != uint16(kmsg.EndTxn) {
		return c.Conn.Write(b)
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch c.p.seen++; c.p.seen {
	case 1:
		c.p.letter = slices.Clone(b)
		_ = c.Close()
		return 0, errors.New("cut")
	case 3:
		code, err := c.p.deliver(c.addr)
		if err != nil {
			return 0, err
		}
		c.p.code <- code
	}
	return c.Conn.Write(b)
}

// deliver sends the letter over a connection of its own and returns the coordinator's code.
func (p *postman) deliver(addr string) (int16, error) {
	nc, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return 0, err
	}
	defer func() { _ = nc.Close() }()
	if _, err = nc.Write(p.letter); err != nil {
		return 0, err
	}
	answer := make([]byte, 4+4+4+2) // size, correlation id, throttle time, error code
	if binary.BigEndian.Uint16(p.letter[6:]) >= 3 {
		answer = append(answer, 0) // the flexible version's tags, after the correlation id
	}
	if _, err = io.ReadFull(nc, answer); err != nil {
		return 0, err
	}
	return int16(binary.BigEndian.Uint16(answer[len(answer)-2:])), nil
}

// TestRealEndTxnArrivesLate: a real coordinator takes an EndTxn for one about whatever transaction is open in its
// epoch.
func TestRealEndTxnArrivesLate(t *testing.T) {
	c := realKafka(t, "a", 2)
	p := &postman{code: make(chan int16, 1)}
	r := newRigAt(t, c.Addrs(), exactlyOnce("first"), func(cfg *Config) { cfg.Dial = p.dial })
	r.begin()
	r.transact(50, "a")
	r.drain()
	r.transact(50, "a")
	r.drain()
	r.checkAcks()
	require.Contains(t, []int16{wire.ProducerFenced, wire.InvalidProducerEpoch}, <-p.code)
}
