package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Bounds of reading.
const (
	readBatch    = 64               // messages that are asked for at once, each as large as max_payload at most
	readPatience = 30 * time.Second // without progress, until a person is asked
	readPause    = 500 * time.Millisecond
	idleConsumer = 30 * time.Second // then the server removes the consumer of a reader that has ended
)

// Reader reads the stream. Its topics are subjects, an offset is a sequence of the stream, and there is one partition.
//
// Each span is read by a consumer of its own, without acknowledgements and in memory. Such a consumer forgets what it
// has sent, whether it has arrived or not: the numbers that it gives its messages show what is missing, and then
// another consumer begins there. Messages that the stream removes while a consumer reads are not noticed.
type Reader struct {
	cluster Cluster
	conn    *connection
	refused atomic.Pointer[error] // by a server, for a right that is missing
	wait    atomic.Pointer[sink.Wait]
}

var _ sink.Reader = (*Reader)(nil)

// OpenReader returns the function by which a command opens its reader.
func OpenReader(c Cluster) sink.OpenReader {
	return func() (sink.Reader, error) { return &Reader{cluster: *c.existing()}, nil }
}

// Close implements sink.Reader.
func (r *Reader) Close() { r.drop() }

func (r *Reader) drop() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// Waits implements sink.Reader.
func (r *Reader) Waits() *sink.Wait { return r.wait.Load() }

// Names implements sink.Reader.
func (r *Reader) Names() sink.Names {
	return sink.Names{Broker: "JetStream", Place: func(topic string, _ int32, offset int64) string {
		return fmt.Sprintf("subject %s, message %d", topic, offset)
	}}
}

// Topics implements sink.Reader: the subjects that have messages.
func (r *Reader) Topics(ctx context.Context) (topics []string, err error) {
	err = r.ask(ctx, func(ctx context.Context, stream jetstream.Stream) error {
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err == nil {
			topics = slices.Sorted(maps.Keys(info.State.Subjects))
		}
		return err
	})
	return topics, err
}

// Spans implements sink.Reader. All subjects that the stream takes exist.
func (r *Reader) Spans(ctx context.Context, topics ...string) (spans []sink.Span, err error) {
	err = r.ask(ctx, func(_ context.Context, stream jetstream.Stream) error {
		info := stream.CachedInfo()
		if info.Config.Retention != jetstream.LimitsPolicy {
			return &fault.Error{
				Kind: fault.Operator, Object: fmt.Sprintf("stream %q", r.cluster.Stream),
				Err: fmt.Errorf("its retention is %s: it removes what was consumed, so an event that it lacks may "+
					"have been published", info.Config.Retention),
				Next: "Use a stream with retention limits, if commands are to read it.",
			}
		}
		spans = spans[:0]
		for _, topic := range slices.Compact(slices.Sorted(slices.Values(topics))) {
			if !covers(info.Config.Subjects, topic) {
				return &fault.Error{
					Kind: fault.Operator, Object: "subject " + topic, Err: sink.ErrNoTopic,
					Next: "Check the name; add it to the subjects of the stream if it is missing.",
				}
			}
			spans = append(spans, sink.Span{Topic: topic, From: first(info), End: int64(info.State.LastSeq) + 1})
		}
		return nil
	})
	return spans, err
}

// first is the stream's first sequence, 0 if it has lost no message yet and has no limit for a subject.
func first(info *jetstream.StreamInfo) int64 {
	if info.State.FirstSeq <= 1 && info.State.NumDeleted == 0 && info.Config.MaxMsgsPerSubject <= 0 {
		return 0
	}
	return int64(max(info.State.FirstSeq, 1))
}

// Since implements sink.Reader. The time is when JetStream has stored a message, which is not before the record's.
func (r *Reader) Since(ctx context.Context, s sink.Span, t int64) (sink.Span, error) {
	err := r.ask(ctx, func(ctx context.Context, stream jetstream.Stream) error {
		at := time.UnixMilli(t)
		c, err := consume(ctx, stream, jetstream.ConsumerConfig{
			FilterSubject: s.Topic, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &at,
		})
		if err != nil {
			return err
		}
		if c.CachedInfo().NumPending == 0 {
			s.From = s.End
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		batch, err := c.Fetch(1, jetstream.FetchContext(asking))
		if err != nil {
			return err
		}
		m, ok := <-batch.Messages()
		if !ok {
			return errors.Join(batch.Error(), errSilent)
		}
		meta, err := m.Metadata()
		if err == nil {
			s.From = min(max(s.From, int64(meta.Sequence.Stream)), s.End)
		}
		return err
	})
	return s, err
}

// consume creates a consumer that nothing but this reader uses.
func consume(
	ctx context.Context, stream jetstream.Stream, c jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	c.AckPolicy, c.MemoryStorage, c.Replicas, c.InactiveThreshold = jetstream.AckNonePolicy, true, 1, idleConsumer
	return stream.CreateConsumer(ctx, c)
}

// Compacted implements sink.Reader. A stream that keeps some messages of each subject does not go by keys.
func (r *Reader) Compacted(context.Context, string) (compacted, known bool, err error) {
	return false, true, nil
}

// Retention implements sink.Reader.
func (r *Reader) Retention(ctx context.Context, _ string) (keeps sink.Retention, err error) {
	err = r.ask(ctx, func(_ context.Context, stream jetstream.Stream) error {
		config := &stream.CachedInfo().Config
		edit := "nats stream edit " + config.Name
		keeps = sink.Retention{
			Object: fmt.Sprintf("stream %q", config.Name), Age: config.MaxAge, KeepAge: edit + " --max-age=-1",
			KeepBytes: edit + " --max-bytes=-1",
		}
		if config.Discard == jetstream.DiscardOld {
			keeps.Bytes = max(config.MaxBytes, 0)
		}
		return nil
	})
	return keeps, err
}

// ask calls f with the stream, and again while its failure may pass.
func (r *Reader) ask(ctx context.Context, f func(ctx context.Context, stream jetstream.Stream) error) error {
	began := time.Now()
	object := fmt.Sprintf("stream %q", r.cluster.Stream)
	r.wait.Store(&sink.Wait{Object: object, Since: began})
	defer r.wait.Store(nil)
	for {
		err := r.attempt(ctx, f)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.drop()
		if fault.KindOf(err) != fault.Retry || time.Since(began) > readPatience {
			return err
		}
		r.wait.Store(&sink.Wait{Object: object, Err: err, Since: began})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(readPause):
		}
	}
}

func (r *Reader) attempt(ctx context.Context, f func(ctx context.Context, stream jetstream.Stream) error) error {
	if r.conn == nil {
		r.refused.Store(nil)
		refused := func(c *client.Conn, _ *client.Subscription, err error) {
			if strings.Contains(strings.ToLower(err.Error()), client.PERMISSIONS_ERR) {
				r.refused.Store(&err)
				c.Close() // nothing answers what was refused
			}
		}
		conn, err := r.cluster.connect(ctx, client.ErrorHandler(refused))
		if err != nil {
			return troubled(connectTrouble(r.cluster.Servers, err))
		}
		r.conn = conn
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := r.conn.js.Stream(asking, r.cluster.Stream)
	if err == nil {
		err = f(ctx, stream)
	}
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if refused := r.refused.Load(); refused != nil {
		t := rightTrouble(*refused)
		t.Remedy = fmt.Sprintf("Allow the user to publish to $JS.API.INFO, $JS.API.STREAM.INFO.%[1]s, "+
			"$JS.API.CONSUMER.CREATE.%[1]s.>, $JS.API.CONSUMER.MSG.NEXT.%[1]s.> and $JS.API.CONSUMER.INFO.%[1]s.>, "+
			"and to subscribe to _INBOX.>.", r.cluster.Stream)
		return troubled(t)
	}
	return troubled(streamTrouble(r.cluster.Stream, err))
}

// troubled is trouble as the error of a command.
func troubled(t sink.Trouble) error {
	f := &fault.Error{Kind: fault.Operator, Object: t.Object, Err: errors.New(t.Sentence)}
	if t.Kind.Passes() || t.Kind == sink.NoLeader {
		f.Kind = fault.Retry
	}
	return f.With(fault.Do(t.Remedy, t.Commands...))
}
