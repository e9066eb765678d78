package reader

import (
	"context"
	"fmt"
	"iter"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// searchBytes is what a search asks for at once: it decodes little of what it reads, so round trips are what it waits
// for.
const searchBytes = 8 << 20

// Search iterates as Messages does, and leaves out the batches that do not hold the bytes anywhere: in a key, a value
// or a header. What it gives may be another record of such a batch, so the caller compares. A search decodes next to
// nothing and is several times as fast as reading. progress is called with the next offset after each answer.
func (r *Reader) Search(
	ctx context.Context, s sink.Span, needle []byte, progress func(next int64),
) iter.Seq2[*sink.Message, error] {
	return func(yield func(*sink.Message, error) bool) {
		r.fetch.needle = needle
		defer func() { r.fetch.needle = nil }()
		r.read(ctx, s, progress)(yield)
	}
}

// Since raises From to the first record whose timestamp is not before t, in milliseconds since the Unix epoch. Records
// after it may be older: a topic is in the order of arrival. Without such a record the span becomes empty.
func (r *Reader) Since(ctx context.Context, s sink.Span, t int64) (sink.Span, error) {
	err := r.retry(ctx, fmt.Sprintf("topic %s, partition %d", s.Topic, s.Partition), func() error {
		at, err := r.offset(ctx, s, t)
		if at < 0 { // ListOffsets: there is none
			at = s.End
		}
		if err == nil {
			s.From = min(max(s.From, at), s.End)
		}
		return err
	})
	return s, err
}
