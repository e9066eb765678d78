package kafka

import (
	"context"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// coordinator is the broker that answers for a transactional id or a group, and the connection to it.
type coordinator struct {
	kind int8
	wire *wire.Conn // nil while there is none
}

func (c *coordinator) forget() {
	if c.wire != nil {
		_ = c.wire.Close()
		c.wire = nil
	}
}

// ask sends a request to the coordinator and waits for the answer. Every request here may be sent again when the answer
// is lost: while the transaction is the same the coordinator recognizes a repeat, and the next transaction then gets an
// epoch of its own, see endTransaction.
func (p *Producer) ask(
	ctx context.Context, c *coordinator, key string, req protocol.Message,
) (protocol.Message, error) {
	w, err := p.coordinate(ctx, c, key)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	res, err := w.RoundTrip(req, p.control.timeout)
	if err != nil {
		p.silent(w.Addr)
		p.own.forget(w.Addr)
	}
	return res, err
}

// forget closes the connections to coordinators at the address: one that does not answer for transactions has no answer
// for groups either, and to find that out would take another timeout.
func (o *ownership) forget(addr string) {
	for _, c := range []*coordinator{&o.transactionCoordinator, &o.groupCoordinator} {
		if c.wire != nil && c.wire.Addr == addr {
			c.forget()
		}
	}
}

// coordinate returns a connection to the coordinator of the key.
func (p *Producer) coordinate(ctx context.Context, c *coordinator, key string) (*wire.Conn, error) {
	if c.wire != nil {
		p.asks(c.wire.Addr)
		return c.wire, nil
	}
	w, err := p.dialAny(ctx, p.own.turn)
	if err != nil {
		return nil, err
	}
	p.own.turn++ // one that answers may still know nothing
	addr, err := wire.FindCoordinator(ctx, w, c.kind, key, p.control.timeout)
	if err != nil {
		return nil, err
	}
	p.asks(addr)
	c.wire, err = wire.Dial(ctx, &p.cfg.Cluster, addr)
	return c.wire, err
}

// asks notes whom the step at hand asks.
func (p *Producer) asks(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own.peer = addr
}

// retire ends the step that asks a broker that is not one of the cluster's any more, as a broker that hangs is not
// after a while: its successor can be asked at once.
func (o *ownership) retire(brokers map[int32]string) {
	if o == nil || o.cancelStep == nil || o.peer == "" {
		return
	}
	for _, addr := range brokers {
		if addr == o.peer {
			return
		}
	}
	o.retired = true
	o.cancelStep()
}
