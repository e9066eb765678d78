package nats

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Bounds of reading. A message is asked for alone, so several are asked for at once.
const (
	readers   = 8       // questions at once
	stretch   = 32      // sequences for each of them
	readBytes = 8 << 20 // of payloads, then what was read is given first
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
		var created time.Time
		for at := s.From; at < s.End; {
			var part []*jetstream.RawStreamMsg
			next := at
			err := r.ask(ctx, func(ctx context.Context, conn *connection) (err error) {
				if part, next, err = r.read(ctx, conn, s, at); err != nil {
					return err
				}
				return r.same(ctx, conn, s, &created)
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range part {
				if !yield(decoded(m), nil) {
					return
				}
			}
			at = next
			progress(at)
		}
	}
}

// read reads the messages of the span from a sequence on: the first, and what follows soon. next is where to go on.
func (r *Reader) read(
	ctx context.Context, conn *connection, s sink.Span, at int64,
) (part []*jetstream.RawStreamMsg, next int64, _ error) {
	first, err := conn.stored(ctx, r.cluster.Stream, getRequest{Seq: uint64(max(at, 1)), Subject: s.Topic})
	if err != nil {
		return nil, at, err
	}
	if first == nil || int64(first.Sequence) >= s.End {
		return nil, s.End, nil
	}
	next = int64(first.Sequence) + 1
	var all [readers]leg
	var bytes atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for i := range all {
		all[i] = leg{at: next + int64(i)*stretch, end: min(next+int64(i+1)*stretch, s.End)}
		g.Go(func() error { return all[i].read(ctx, conn, r.cluster.Stream, s.Topic, &bytes) })
	}
	if err := g.Wait(); err != nil {
		return nil, at, err
	}
	part = append(part, first)
	for i := range all {
		l := &all[i]
		if l.end <= next {
			break
		}
		part, next = append(part, l.messages...), min(l.at, l.end)
		if l.at < l.end {
			break // its rest comes first
		}
	}
	return part, next, nil
}

// leg is a stretch of the stream that one goroutine reads.
type leg struct {
	at, end  int64 // the next sequence to ask for; the end of the stretch
	messages []*jetstream.RawStreamMsg
}

func (l *leg) read(ctx context.Context, conn *connection, stream, subject string, bytes *atomic.Int64) error {
	for l.at < l.end && bytes.Load() < readBytes {
		m, err := conn.stored(ctx, stream, getRequest{Seq: uint64(l.at), Subject: subject})
		switch {
		case err != nil:
			return err
		case m == nil || int64(m.Sequence) >= l.end:
			l.at = l.end
			return nil
		}
		bytes.Add(int64(len(m.Data)))
		l.messages, l.at = append(l.messages, m), int64(m.Sequence)+1
	}
	return nil
}

// same is an error if the stream is another than when the span was begun: made again, or put back to an older state.
func (r *Reader) same(ctx context.Context, conn *connection, s sink.Span, created *time.Time) error {
	info, err := r.info(ctx, conn)
	if err != nil {
		return err
	}
	if created.IsZero() {
		*created = info.Created
	}
	if info.Created.Equal(*created) && int64(info.State.LastSeq) >= s.End-1 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("stream %q", r.cluster.Stream),
		Err:  fmt.Errorf("it was made again, or put back to an older state, while it was read"),
		Next: "Run the command again.",
	}
}

// decoded is the record of a message, as newMessage has written it. The headers are in the order of their names.
func decoded(m *jetstream.RawStreamMsg) *sink.Message {
	out := &sink.Message{
		Topic: m.Subject, Offset: int64(m.Sequence), Value: m.Data, Timestamp: m.Time.UnixMilli(), AppendTime: true,
	}
	if at, err := time.Parse(time.RFC3339, m.Header.Get(headerTime)); err == nil {
		out.Timestamp, out.AppendTime = at.UnixMilli(), false
	}
	if m.Header.Get(headerTombstone) == "true" {
		out.Value = nil
	} else if out.Value == nil {
		out.Value = []byte{}
	}
	escaped := strings.Split(m.Header.Get(headerEscaped), ",")
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		for _, value := range m.Header[name] {
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
