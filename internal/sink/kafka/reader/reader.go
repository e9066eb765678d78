package reader

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Reader reads ranges of topics as a consumer with isolation.level=read_committed sees them: no control records,
// nothing of aborted transactions (kafka-go's own reader returns both). It joins no group and commits nothing. It
// implements sink.Reader and has no goroutine.
type Reader struct {
	cluster wire.Cluster
	wires   map[string]*wire.Conn // by address
	leaders map[string][]string
	fetch   fetchBuffer
	wait    atomic.Pointer[sink.Wait]
}

// New returns a reader. It connects when it is used.
func New(c wire.Cluster) (*Reader, error) {
	c.SetDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Reader{cluster: c, wires: map[string]*wire.Conn{}, leaders: map[string][]string{}}, nil
}

// Open returns the function by which a command opens its reader.
func Open(c wire.Cluster) sink.OpenReader {
	return func() (sink.Reader, error) { return New(c) }
}

var _ sink.Reader = (*Reader)(nil)

// Names implements sink.Reader.
func (r *Reader) Names() sink.Names {
	return sink.Names{Broker: "Kafka", Place: func(topic string, partition int32, offset int64) string {
		return fmt.Sprintf("topic %s, partition %d, offset %d", topic, partition, offset)
	}}
}

// Close ends the connections.
func (r *Reader) Close() {
	for addr := range r.wires {
		r.drop(addr)
	}
}

// Topics lists the cluster's topics, sorted, without Kafka's own.
func (r *Reader) Topics(ctx context.Context) ([]string, error) {
	var names []string
	err := r.retry(ctx, "kafka", func() error {
		answer, err := r.metadata(ctx, nil)
		if err != nil {
			return err
		}
		names = names[:0]
		for i := range answer.Topics {
			if t := &answer.Topics[i]; !t.IsInternal {
				names = append(names, t.Name)
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

// Spans returns the offsets that can be read of the topics right now, by topic and partition: from the start of the log
// to the last stable offset, after which transactions are still open.
func (r *Reader) Spans(ctx context.Context, topics ...string) ([]sink.Span, error) {
	var spans []sink.Span
	for _, topic := range slices.Compact(slices.Sorted(slices.Values(topics))) {
		err := r.retry(ctx, "topic "+topic, func() error {
			if err := r.lookUp(ctx, topic); err != nil {
				return err
			}
			var of []sink.Span
			for i := range r.leaders[topic] {
				s := sink.Span{Topic: topic, Partition: int32(i)}
				var err error
				if s.From, err = r.offset(ctx, s, earliest); err == nil {
					s.End, err = r.offset(ctx, s, latest)
				}
				if err != nil {
					return err
				}
				of = append(of, s)
			}
			spans = append(spans, of...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return spans, nil
}

// Messages iterates over the span, in order. After an error the iteration ends. Records that retention deletes
// meanwhile are an error, too.
func (r *Reader) Messages(ctx context.Context, s sink.Span) iter.Seq2[*sink.Message, error] {
	return r.read(ctx, s, func(int64) {})
}

// read iterates over the span, and calls progress with the next offset after each answer.
func (r *Reader) read(ctx context.Context, s sink.Span, progress func(next int64)) iter.Seq2[*sink.Message, error] {
	return func(yield func(*sink.Message, error) bool) {
		at, stopped := s.From, false
		for at < s.End && !stopped {
			err := r.retry(ctx, fmt.Sprintf("topic %s, partition %d", s.Topic, s.Partition), func() error {
				next, more, err := r.fetchOnce(ctx, s, at, func(m *sink.Message) bool { return yield(m, nil) })
				at, stopped = next, !more
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			progress(at)
		}
	}
}

// Special timestamps of ListOffsets.
const (
	earliest = -2
	latest   = -1
)

// readCommitted is the isolation level in requests.
const readCommitted = 1

func (r *Reader) offset(ctx context.Context, s sink.Span, timestamp int64) (int64, error) {
	w, err := r.leader(ctx, s)
	if err != nil {
		return 0, err
	}
	if v, err := w.Version(protocol.ListOffsets); err != nil || v < 2 {
		return 0, tooOld(w, protocol.ListOffsets)
	}
	res, err := r.ask(ctx, w, &listoffsets.Request{
		ReplicaID: -1, IsolationLevel: readCommitted,
		Topics: []listoffsets.RequestTopic{{Topic: s.Topic, Partitions: []listoffsets.RequestPartition{
			{Partition: s.Partition, CurrentLeaderEpoch: -1, Timestamp: timestamp},
		}}},
	})
	if err != nil {
		return 0, err
	}
	answer := res.(*listoffsets.Response)
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("ListOffsets answers %d topics where one was asked for", len(answer.Topics))
	}
	p := answer.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, &wire.CodeError{API: "ListOffsets", Code: p.ErrorCode}
	}
	return p.Offset, nil
}

func tooOld(w *wire.Conn, api protocol.ApiKey) error {
	return wire.DataError(fmt.Sprintf("the broker at %s offers no version of %s with read_committed (Kafka 0.11)",
		w.Addr,
		api))
}
