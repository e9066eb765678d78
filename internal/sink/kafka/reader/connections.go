package reader

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

func (r *Reader) metadata(ctx context.Context, topics []string) (*metadata.Response, error) {
	w, err := r.any(ctx)
	if err != nil {
		return nil, err
	}
	res, err := r.ask(ctx, w, &metadata.Request{TopicNames: topics})
	if err != nil {
		return nil, err
	}
	return res.(*metadata.Response), nil
}

// lookUp learns who leads the topic's partitions.
func (r *Reader) lookUp(ctx context.Context, topic string) error {
	answer, err := r.metadata(ctx, []string{topic})
	if err != nil {
		return err
	}
	addrs := map[int32]string{}
	for i := range answer.Brokers {
		b := &answer.Brokers[i]
		addrs[b.NodeID] = wire.BrokerAddr(b.Host, b.Port)
	}
	for i := range answer.Topics {
		t := &answer.Topics[i]
		if t.Name != topic {
			continue
		}
		if t.ErrorCode != 0 {
			return &wire.CodeError{API: "Metadata", Code: t.ErrorCode}
		}
		leaders := make([]string, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if int(uint32(p.PartitionIndex)) >= len(leaders) || addrs[p.LeaderID] == "" {
				return &wire.CodeError{API: "Metadata", Code: wire.LeaderNotAvailable}
			}
			leaders[p.PartitionIndex] = addrs[p.LeaderID]
		}
		r.leaders[topic] = leaders
		return nil
	}
	return &wire.CodeError{API: "Metadata", Code: wire.UnknownTopic}
}

// leader returns a connection to the partition's leader.
func (r *Reader) leader(ctx context.Context, s sink.Span) (*wire.Conn, error) {
	if r.leaders[s.Topic] == nil {
		if err := r.lookUp(ctx, s.Topic); err != nil {
			return nil, err
		}
	}
	if int(s.Partition) >= len(r.leaders[s.Topic]) {
		return nil, &wire.CodeError{API: "Metadata", Code: wire.UnknownTopic}
	}
	return r.connect(ctx, r.leaders[s.Topic][s.Partition])
}

// any returns a connection to whichever broker answers.
func (r *Reader) any(ctx context.Context) (*wire.Conn, error) {
	for _, w := range r.wires {
		return w, nil
	}
	var errs []error
	for _, addr := range r.cluster.Brokers {
		w, err := r.connect(ctx, addr)
		if err == nil {
			return w, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (r *Reader) connect(ctx context.Context, addr string) (*wire.Conn, error) {
	if w := r.wires[addr]; w != nil {
		return w, nil
	}
	w, err := wire.Dial(ctx, &r.cluster, addr)
	if err != nil {
		return nil, err
	}
	r.wires[addr] = w
	return w, nil
}

// drop closes a connection that broke.
func (r *Reader) drop(addr string) {
	if w := r.wires[addr]; w != nil {
		_ = w.Close()
		delete(r.wires, addr)
	}
}

// ask sends a request; the end of the context ends the connection, and with it the wait.
func (r *Reader) ask(ctx context.Context, w *wire.Conn, req protocol.Message) (protocol.Message, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	res, err := w.RoundTrip(req, r.cluster.RequestTimeout)
	if err != nil {
		r.drop(w.Addr)
	}
	return res, err
}
