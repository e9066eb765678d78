package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Bounds of a question that is not answered.
const (
	readPatience = 30 * time.Second // then a person is asked
	readPause    = 500 * time.Millisecond
)

// Reader reads the stream. Its topics are subjects, an offset is a sequence of the stream, and there is one partition.
//
// It asks the leader for one message after the other, and makes no consumer. A consumer of one replica may be on a
// server that does not have the newest messages yet, it counts against the limits of the stream, and the client library
// takes messages with a header Status for its own.
type Reader struct {
	cluster Cluster
	conn    *connection
	hangUp  context.CancelFunc    // ends conn
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
		r.hangUp()
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
	err = r.ask(ctx, func(ctx context.Context, conn *connection) error {
		ctx, cancel := context.WithTimeout(ctx, readPatience) // there may be many
		defer cancel()
		stream, err := conn.js.Stream(ctx, r.cluster.Stream)
		if err != nil {
			return err
		}
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
	err = r.ask(ctx, func(ctx context.Context, conn *connection) error {
		info, err := r.info(ctx, conn)
		if err != nil {
			return err
		}
		if err := r.readable(&info.Config); err != nil {
			return err
		}
		spans = spans[:0]
		for _, topic := range slices.Compact(slices.Sorted(slices.Values(topics))) {
			if !covers(info.Config.Subjects, topic) {
				return &fault.Error{
					Kind: fault.Operator, Object: "subject " + topic, Err: sink.ErrNoTopic,
					Next: "Check the name; add it to the subjects of the stream if it is missing.",
				}
			}
			s := sink.Span{Topic: topic, End: int64(info.State.LastSeq) + 1}
			if info.State.FirstSeq > 1 {
				s.From = int64(info.State.FirstSeq)
			}
			spans = append(spans, s)
		}
		return nil
	})
	return spans, err
}

// readable refuses a stream in which an event that was published may not be found.
func (r *Reader) readable(c *jetstream.StreamConfig) error {
	f := &fault.Error{Kind: fault.Operator, Object: fmt.Sprintf("stream %q", r.cluster.Stream)}
	switch {
	case c.Retention != jetstream.LimitsPolicy:
		f.Err = fmt.Errorf("its retention is %s: it removes what was consumed, so an event that it lacks may have "+
			"been published", c.Retention)
		f.Next = "Use a stream with retention limits, if commands are to read it."
	case c.SubjectTransform != nil:
		f.Err = errors.New("it changes the subjects of its messages (subject_transform)")
		f.Next = "Let another stream source it and change the subjects, if commands are to read it."
	default:
		return nil
	}
	return f
}

// Removed implements sink.Reader.
func (r *Reader) Removed(ctx context.Context, _ sink.Span) (before time.Time, err error) {
	err = r.ask(ctx, func(ctx context.Context, conn *connection) error {
		info, err := r.info(ctx, conn)
		switch {
		case err != nil:
			return err
		case info.Config.MaxMsgsPerSubject > 0, info.State.NumDeleted > 0, // also by a purge of a subject
			info.State.FirstSeq > 1 && info.State.Msgs == 0:
			before = time.Now()
		case info.State.FirstSeq > 1:
			before = info.State.FirstTime
		}
		return nil
	})
	return before, err
}

// Since implements sink.Reader. The time is when JetStream has stored a message.
func (r *Reader) Since(ctx context.Context, s sink.Span, t int64) (sink.Span, error) {
	var failed error
	n := sort.Search(int(s.End-s.From), func(i int) (is bool) {
		if failed != nil {
			return true
		}
		failed = r.ask(ctx, func(ctx context.Context, conn *connection) error {
			at := getRequest{Seq: uint64(max(s.From+int64(i), 1)), Subject: ">"}
			m, err := conn.stored(ctx, r.cluster.Stream, at)
			is = m == nil || m.Time.UnixMilli() >= t
			return err
		})
		return is
	})
	if failed != nil {
		return s, failed
	}
	s.From += int64(n)
	return s, nil
}

// Compacted implements sink.Reader. A stream that keeps some messages of each subject does not go by keys.
func (r *Reader) Compacted(context.Context, string) (compacted, known bool, err error) {
	return false, true, nil
}

// Retention implements sink.Reader.
func (r *Reader) Retention(ctx context.Context, _ string) (keeps sink.Retention, err error) {
	err = r.ask(ctx, func(ctx context.Context, conn *connection) error {
		info, err := r.info(ctx, conn)
		if err != nil {
			return err
		}
		c := &info.Config
		edit := "nats stream edit " + c.Name
		keeps = sink.Retention{
			Object: fmt.Sprintf("stream %q", c.Name), Age: c.MaxAge, KeepAge: edit + " --max-age=-1",
			KeepBytes: edit + " --max-bytes=-1", KeepMessages: edit + " --max-msgs=-1 --max-msgs-per-subject=-1",
			Messages: max(c.MaxMsgsPerSubject, 0),
		}
		if c.Discard == jetstream.DiscardOld {
			keeps.Bytes = max(c.MaxBytes, 0)
			if c.MaxMsgs > 0 && (keeps.Messages == 0 || c.MaxMsgs < keeps.Messages) {
				keeps.Messages = c.MaxMsgs
			}
		}
		return nil
	})
	return keeps, err
}

// info describes the stream, as its leader knows it.
func (r *Reader) info(ctx context.Context, conn *connection) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := conn.js.Stream(ctx, r.cluster.Stream)
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// ask calls f with a connection, and again while its failure may pass.
func (r *Reader) ask(ctx context.Context, f func(context.Context, *connection) error) error {
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

func (r *Reader) attempt(ctx context.Context, f func(context.Context, *connection) error) error {
	if r.conn == nil {
		if err := r.dial(ctx); err != nil {
			return troubled(connectTrouble(r.cluster.Servers, err))
		}
	}
	err := f(ctx, r.conn)
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if refused := r.refused.Load(); refused != nil {
		t := rightTrouble(*refused)
		t.Remedy = fmt.Sprintf("Allow the user to publish to $JS.API.INFO, $JS.API.STREAM.INFO.%[1]s and "+
			"$JS.API.STREAM.MSG.GET.%[1]s, and to subscribe to _INBOX.>.", r.cluster.Stream)
		return troubled(t)
	}
	return troubled(streamTrouble(r.cluster.Stream, err))
}

// dial opens a connection that outlives ctx, which only bounds the handshake.
func (r *Reader) dial(ctx context.Context) error {
	lasting, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, hangUp)()
	r.refused.Store(nil)
	refused := func(c *client.Conn, _ *client.Subscription, err error) {
		if strings.Contains(strings.ToLower(err.Error()), client.PERMISSIONS_ERR) {
			r.refused.Store(&err)
			c.Close() // nothing answers what was refused
		}
	}
	conn, err := r.cluster.connect(lasting, client.ErrorHandler(refused))
	if err != nil {
		hangUp()
		return err
	}
	r.conn, r.hangUp = conn, hangUp
	return nil
}

// troubled is trouble as the error of a command.
func troubled(t sink.Trouble) error {
	f := &fault.Error{Kind: fault.Operator, Object: t.Object, Err: errors.New(t.Sentence)}
	if t.Kind.Passes() || t.Kind == sink.NoLeader {
		f.Kind = fault.Retry
	}
	return f.With(fault.Do(t.Remedy, t.Commands...))
}
