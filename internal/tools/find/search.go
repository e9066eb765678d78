package find

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// workers search at once, with connections of their own.
	workers = 4
	// after is how many records of a partition are searched after the first with the id: a crash repeats the records in
	// flight, so a repeat comes soon.
	after = 100_000
	// skew is how far the clock that made an id may differ from the clock that made the record's timestamp.
	skew = 10 * time.Minute
)

// search looks through the broker: first where and since when the record ought to be, then, if it is not there,
// everywhere.
func (o *Options) search(ctx context.Context, r *Report) error {
	first, err := o.Reader()
	if err != nil {
		return err
	}
	defer first.Close()
	began := time.Now()
	defer o.Progress.Wait(func() (string, time.Time) {
		if what, since := progress.Reading(first)(); what != "" {
			return what, since
		}
		return fmt.Sprintf("the search in %s, %d records so far", r.names.Broker, atomic.LoadInt64(&r.searched)), began
	})()
	defer func() { r.Kafka.Records = atomic.LoadInt64(&r.searched) }()
	if r.Kafka.Topics, err = o.topics(ctx, first, r); err != nil {
		return err
	}
	spans, err := o.spans(ctx, first, r)
	if err != nil {
		return err
	}
	likely, rest, err := o.likely(ctx, first, r, spans)
	if err != nil {
		return err
	}
	for _, part := range [][]sink.Span{likely, rest} {
		if len(part) == 0 || o.ID != "" && len(r.Records) > 0 && !o.All {
			continue
		}
		if err := o.searchSpans(ctx, r, part); err != nil {
			return err
		}
	}
	slices.SortStableFunc(r.Records, func(a, b Record) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	if most := o.MaxRecords; o.Key != "" && len(r.Records) > most {
		r.More += int64(len(r.Records) - most)
		r.Records = r.Records[len(r.Records)-most:]
	}
	return nil
}

// topics are the named topics and the topics that the rows lead to; without any, all but the topic of dead letters.
func (o *Options) topics(ctx context.Context, k sink.Reader, r *Report) ([]string, error) {
	names := slices.Clone(o.Topics)
	for i := range r.Rows {
		if t := r.Rows[i].Topic; t != "" {
			names = append(names, t)
		}
	}
	if len(names) == 0 {
		all, err := k.Topics(ctx)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(all, func(name string) bool { return name == o.Letters })
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// spans are all that can be read of the topics. A topic that does not exist holds nothing; one that may not be read is
// said.
func (o *Options) spans(ctx context.Context, k sink.Reader, r *Report) (all []sink.Span, err error) {
	for _, topic := range r.Kafka.Topics {
		spans, err := k.Spans(ctx, topic)
		switch {
		case errors.Is(err, sink.ErrNoTopic):
			r.NotLooked = append(r.NotLooked, "topic "+topic+": it does not exist")
		case ctx.Err() != nil:
			return nil, err
		case err != nil:
			r.Complete = false
			r.NotLooked = append(r.NotLooked, r.names.Broker+": "+err.Error())
		}
		if o.Key != "" && !o.Placed && len(spans) > 0 { // the relay writes a key to one partition
			want := map[int32]bool{}
			for _, key := range o.keys(r) {
				want[kafka.PartitionOf(key, len(spans))] = true
			}
			spans = slices.DeleteFunc(spans, func(s sink.Span) bool { return !want[s.Partition] })
		}
		if !o.Since.IsZero() {
			r.Kafka.Since = o.Since
			for i := range spans {
				if spans[i], err = k.Since(ctx, spans[i], o.Since.UnixMilli()); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, spans...)
	}
	return all, nil
}

// likely divides the spans into parts that very probably hold the record, and the rest. The row, or a version 7 uuid,
// says since when to look; the row's key, in which partition.
func (o *Options) likely(
	ctx context.Context, k sink.Reader, r *Report, spans []sink.Span,
) (likely, rest []sink.Span, err error) {
	since := born(o.ID)
	if !since.IsZero() {
		since = since.Add(-skew)
	}
	keys := map[string]Row{}
	for i := range r.Rows {
		if row := r.Rows[i]; row.Bad == "" && o.ID != "" {
			keys[row.Topic], since = row, *row.Timestamp
		}
	}
	if since.IsZero() || since.After(time.Now()) {
		return nil, spans, nil
	}
	partitions := map[string]int{}
	for _, s := range spans {
		partitions[s.Topic]++
	}
	for _, s := range spans {
		row, known := keys[s.Topic]
		if known && len(row.key) > 0 && kafka.PartitionOf(row.key, partitions[s.Topic]) != s.Partition {
			rest = append(rest, s)
			continue
		}
		late, err := k.Since(ctx, s, since.UnixMilli())
		if err != nil {
			return nil, nil, err
		}
		if late.From < late.End {
			likely = append(likely, late)
		}
		if early := (sink.Span{Topic: s.Topic, Partition: s.Partition, From: s.From, End: late.From}); early.From <
			early.End {
			rest = append(rest, early)
		}
	}
	return likely, rest, nil
}

// searchSpans searches spans side by side, and ends once the event was found unless all of its records are wanted.
func (o *Options) searchSpans(ctx context.Context, r *Report, spans []sink.Span) error {
	g, gctx := errgroup.WithContext(ctx)
	queue := make(chan sink.Span, len(spans))
	for _, s := range spans {
		queue <- s
	}
	close(queue)
	var mu sync.Mutex
	var found atomic.Bool
	for range min(workers, len(spans)) {
		g.Go(func() error {
			k, err := o.Reader()
			if err != nil {
				return err
			}
			defer k.Close()
			for s := range queue {
				if found.Load() && o.ID != "" && !o.All {
					return nil
				}
				w := worker{Options: o, r: r, mu: &mu, found: &found}
				if err := w.search(gctx, k, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// worker searches one span.
type worker struct {
	*Options
	r     *Report
	mu    *sync.Mutex
	found *atomic.Bool
	own   int64 // offset of the first record found in the span, -1 before
}

func (w *worker) search(ctx context.Context, k sink.Reader, s sink.Span) error {
	w.own = -1
	needles := w.keys(w.r)
	if w.ID != "" {
		needles = nil
		for _, id := range w.ids(w.r) {
			needles = append(needles, []byte(id))
		}
	}
	for _, needle := range needles {
		if err := w.searchFor(ctx, k, s, needle); err != nil {
			return err
		}
	}
	return nil
}

// errEnough ends a search early.
var errEnough = errors.New("enough")

func (w *worker) searchFor(ctx context.Context, k sink.Reader, s sink.Span, needle []byte) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	at := s.From
	for m, err := range k.Search(ctx, s, needle, func(next int64) {
		atomic.AddInt64(&w.r.searched, next-at)
		at = next
		enough := w.own >= 0 && next > w.own+after || w.own < 0 && w.found.Load()
		if enough && w.ID != "" && !w.All {
			stop(errEnough)
		}
	}) {
		if err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
		if w.fits(m, needle) {
			w.addRecord(m)
		}
	}
	return nil
}

func (w *worker) fits(m *sink.Message, needle []byte) bool {
	if w.Key != "" {
		return bytes.Equal(m.Key, needle)
	}
	return w.eventID(m.Headers) == string(needle)
}

func (o *Options) record(m *sink.Message) Record {
	rec := Record{
		Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: time.UnixMilli(m.Timestamp).UTC(),
		EventID: o.eventID(m.Headers),
	}
	if v, ok := m.Header(router.HeaderPosition); ok {
		rec.Position = string(v)
	}
	if v, ok := m.Header(router.HeaderReplayed); ok {
		rec.Replayed = string(v)
	}
	return rec
}

func (w *worker) addRecord(m *sink.Message) {
	rec := w.record(m)
	if w.own < 0 {
		w.own = m.Offset
	}
	w.found.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.r.Rows {
		w.r.Rows[i].InKafka = w.r.Rows[i].InKafka || w.r.Rows[i].EventID == rec.EventID
	}
	w.r.Records = append(w.r.Records, rec)
	if most := w.MaxRecords; w.Key != "" && len(w.r.Records) > 2*most { // of a key the last ones are kept
		w.r.More += int64(most)
		w.r.Records = slices.Delete(w.r.Records, 0, most)
	}
}
