package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// end is the end of a stream.
type end struct {
	info *jetstream.StreamInfo
	last *jetstream.RawStreamMsg // the newest message that is there; nil: none is
}

// lookBack is how many sequences before the last one are asked for a message of the relay: after them other writers'
// messages may follow, and messages that were removed.
const lookBack = 1000

// lookAt returns the end of the stream. A stream that is missing is created if it may be.
func (c *Cluster) lookAt(ctx context.Context, conn *connection) (*end, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := conn.js.Stream(ctx, c.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && c.Create != nil {
		stream, err = c.create(ctx, conn.js)
	}
	if err != nil {
		return nil, err
	}
	e := &end{info: stream.CachedInfo()}
	if e.info.State.LastSeq == 0 {
		return e, nil
	}
	e.last, err = conn.stored(ctx, c.Stream, getRequest{Seq: e.info.State.LastSeq})
	return e, err
}

func (c *Cluster) create(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: c.Stream, Subjects: c.Create.Subjects, Replicas: c.Create.Replicas, Storage: jetstream.FileStorage,
		Description: "Events of the outbox. Written by cdc-outbox alone.",
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another instance was first
		return js.Stream(ctx, c.Stream)
	}
	return stream, err
}

// latest finds the newest message of the owner at the end of the stream, and whether nothing that it may have written
// after it can be missing.
func (c *Cluster) latest(ctx context.Context, conn *connection, owner string) (
	_ *end, _ sink.Stored, complete bool, _ error,
) {
	e, err := c.lookAt(ctx, conn)
	if err != nil || e.info.State.LastSeq == 0 {
		return e, sink.Stored{}, true, err
	}
	m, complete := e.last, true
	lowest := max(e.info.State.FirstSeq, 1)
	for seq := e.info.State.LastSeq; ; {
		if m == nil {
			complete = false
		} else if m.Header.Get(headerRelay) == owner {
			stored, err := c.storedIn(m)
			return e, stored, complete, err
		}
		if seq--; seq < lowest || e.info.State.LastSeq-seq > lookBack {
			return e, sink.Stored{}, complete && seq < lowest && lowest == 1, nil
		}
		if m, err = conn.stored(ctx, c.Stream, getRequest{Seq: seq}); err != nil {
			return e, sink.Stored{}, false, err
		}
	}
}

// storedIn reads the position of a message of the relay.
func (c *Cluster) storedIn(m *jetstream.RawStreamMsg) (sink.Stored, error) {
	p, err := parsePosition(m.Header.Get(headerPosition))
	if err != nil {
		return sink.Stored{}, &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("message %d of stream %q", m.Sequence, c.Stream),
			Err: fmt.Errorf("its header %s cannot be read: %w", headerPosition, err),
			Next: "Find out what else writes into the stream: it belongs to this connector. Remove the message if it " +
				"is not an event (nats stream rmm).",
		}
	}
	return sink.Stored{Position: p}, nil
}
