package nats

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Messages implements sink.Reader.
func (r *Reader) Messages(ctx context.Context, s sink.Span) iter.Seq2[*sink.Message, error] {
	return r.Search(ctx, s, nil, func(int64) {})
}

// Search implements sink.Reader, and leaves out nothing.
func (r *Reader) Search(
	ctx context.Context, s sink.Span, _ []byte, progress func(next int64),
) iter.Seq2[*sink.Message, error] {
	return func(yield func(*sink.Message, error) bool) {
		c := &cursor{Span: s, progress: progress, give: func(m *sink.Message) bool { return yield(m, nil) }}
		for !c.done() {
			began := c.From
			err := r.ask(ctx, func(ctx context.Context, stream jetstream.Stream) error {
				err := c.read(ctx, stream)
				if err != nil && c.From > began {
					return nil // there was progress: patience begins again
				}
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// cursor is how far a span was read.
type cursor struct {
	sink.Span
	give     func(*sink.Message) bool
	progress func(next int64)
	stopped  bool // by give
}

func (c *cursor) done() bool { return c.stopped || c.From >= c.End }

// errMissed is for messages that a consumer has sent and that did not arrive.
var errMissed = errors.New("messages have not arrived")

// read reads with one consumer, to the end of the span.
func (c *cursor) read(ctx context.Context, stream jetstream.Stream) error {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	consumer, err := consume(asking, stream, jetstream.ConsumerConfig{
		FilterSubject: c.Topic, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: uint64(max(c.From, 1)),
	})
	if err != nil {
		return err
	}
	pending, read := consumer.CachedInfo().NumPending, uint64(0)
	for pending > 0 && !c.done() {
		before := read
		if pending, read, err = c.fetch(ctx, consumer, pending, read); err != nil {
			return err
		}
		if read == before && !c.done() {
			if err := nothingLeft(ctx, consumer, read); err != nil {
				return err
			}
			pending = 0
		}
		c.progress(c.From)
	}
	if !c.stopped {
		c.From = c.End
	}
	return nil
}

// fetch reads a batch from a consumer that has sent read messages and has pending ones, and returns both numbers as
// they are then.
func (c *cursor) fetch(
	ctx context.Context, consumer jetstream.Consumer, pending, read uint64,
) (nowPending, nowRead uint64, _ error) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	batch, err := consumer.Fetch(int(min(pending, readBatch)), jetstream.FetchContext(asking))
	if err != nil {
		return pending, read, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return pending, read, err
		}
		if meta.Sequence.Consumer != read+1 {
			return pending, read, errMissed
		}
		read, pending = meta.Sequence.Consumer, meta.NumPending
		if at := int64(meta.Sequence.Stream); at < c.End {
			c.From = at + 1
			c.stopped = !c.give(decoded(m, meta))
		} else {
			c.From = c.End
		}
		if c.done() {
			return pending, read, nil
		}
	}
	if err := batch.Error(); err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return pending, read, err
	}
	return pending, read, nil
}

// nothingLeft asks a consumer that sent nothing for a while, because what it still had was removed: anything that it
// has, or that it has sent, is an error.
func nothingLeft(ctx context.Context, consumer jetstream.Consumer, read uint64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := consumer.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return errMissed
	case err != nil:
		return err
	case info.Delivered.Consumer != read:
		return errMissed
	case info.NumPending > 0:
		return errSilent
	}
	return nil
}

// decoded is the record of a message, as newMessage has written it. The headers are in the order of their names.
func decoded(m jetstream.Msg, meta *jetstream.MsgMetadata) *sink.Message {
	h := m.Headers()
	out := &sink.Message{
		Topic: m.Subject(), Offset: int64(meta.Sequence.Stream), Value: m.Data(),
		Timestamp: meta.Timestamp.UnixMilli(), AppendTime: true,
	}
	if at, err := time.Parse(time.RFC3339, h.Get(headerTime)); err == nil {
		out.Timestamp, out.AppendTime = at.UnixMilli(), false
	}
	if h.Get(headerTombstone) == "true" {
		out.Value = nil
	} else if out.Value == nil {
		out.Value = []byte{}
	}
	escaped := strings.Split(h.Get(headerEscaped), ",")
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			if slices.Contains(escaped, name) {
				value = unescape(value)
			}
			switch {
			case name == headerKey:
				out.Key = []byte(value)
			case !isOwn(name) && !strings.HasPrefix(name, "Nats-"):
				out.Headers = append(out.Headers, router.Header{Key: name, Value: []byte(value)})
			}
		}
	}
	return out
}

// unescape reverses escape. A text that escape has not written stays as it is.
func unescape(value string) string {
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}
