package kafka

import (
	"context"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

const (
	coordinatesGroups       = 0
	coordinatesTransactions = 1
)

// coordinator is the broker that answers for a transactional id or a group, and the connection to it.
type coordinator struct {
	kind int8
	wire *wire // nil while there is none
}

func (c *coordinator) forget() {
	if c.wire != nil {
		_ = c.wire.nc.Close()
		c.wire = nil
	}
}

// ask sends a request to the coordinator and waits for the answer. Every request here may be sent again when the answer
// is lost: within an epoch the coordinator takes a repeat for what it is.
func (p *Producer) ask(ctx context.Context, c *coordinator, key string, req protocol.Message) (protocol.Message, error) {
	w, err := p.coordinate(ctx, c, key)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	defer stop()
	res, err := w.roundTrip(req, p.control.timeout)
	if err != nil {
		p.silent(w.addr)
		p.tx.forget(w.addr)
	}
	return res, err
}

// forget closes the connections to coordinators at the address: one that does not answer for transactions has no answer
// for groups either, and to find that out would take another timeout.
func (x *transactions) forget(addr string) {
	for _, c := range []*coordinator{&x.transactionCoordinator, &x.groupCoordinator} {
		if c.wire != nil && c.wire.addr == addr {
			c.forget()
		}
	}
}

// coordinate returns a connection to the coordinator of the key.
func (p *Producer) coordinate(ctx context.Context, c *coordinator, key string) (*wire, error) {
	if c.wire != nil {
		return c.wire, nil
	}
	w, err := p.dialAny(ctx, p.tx.turn)
	if err != nil {
		return nil, err
	}
	p.tx.turn++ // one that answers may still know nothing
	defer func() { _ = w.nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	defer stop()
	res, err := w.roundTrip(&findcoordinator.Request{Key: key, KeyType: c.kind}, p.control.timeout)
	if err != nil {
		return nil, err
	}
	found := res.(*findcoordinator.Response)
	if found.ErrorCode != 0 {
		return nil, &codeError{"FindCoordinator", found.ErrorCode}
	}
	c.wire, err = dial(ctx, &p.cfg, brokerAddr(found.Host, found.Port))
	return c.wire, err
}
