// Package absence judges what it proves that a topic does not have the record of a row: nothing, if the broker may have
// removed it. It knows nothing of compaction, for which the key decides.
package absence

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Topic is what a broker has removed from a topic.
type Topic struct {
	spans   []sink.Span
	removed []time.Time // by span; zero: nothing was
	whole   time.Time   // from when on the topic had as many partitions as now; zero: not known
}

// Look asks the broker about a topic after it was read. A topic that does not exist is sink.ErrNoTopic.
func Look(ctx context.Context, from sink.Reader, topic string) (*Topic, error) {
	spans, err := from.Spans(ctx, topic)
	if err != nil {
		return nil, err
	}
	t := &Topic{spans: spans, removed: make([]time.Time, len(spans))}
	none := true
	for i, span := range spans {
		if t.removed[i], err = from.Removed(ctx, span); err != nil {
			return nil, err
		}
		if !t.removed[i].IsZero() { // a message has the time of its row, and a transaction takes its time
			t.removed[i], none = t.removed[i].Add(gap.Before), false
		}
	}
	if none || len(spans) < 2 {
		return t, nil
	}
	// Partitions are added after the last one. So a record there was written to a topic that had all of them.
	last := len(spans) - 1
	if t.whole = t.removed[last]; spans[last].From > 0 {
		return t, nil // the time of its first record, or now
	}
	for m, err := range from.Messages(ctx, spans[last]) {
		if err != nil {
			return nil, err
		}
		if !router.OutOfTurn(m.Headers) {
			t.whole = time.UnixMilli(m.Timestamp).Add(gap.Before)
			break
		}
	}
	return t, nil
}

// Removal is what a broker may have removed from a partition: the records of rows from before a time.
type Removal struct {
	Span   sink.Span
	Before time.Time
}

// All are the partitions from which something was removed.
func (t *Topic) All() (all []Removal) {
	for i, before := range t.removed {
		if !before.IsZero() {
			all = append(all, Removal{t.spans[i], before})
		}
	}
	return all
}

// Doubt returns where a row's record may have been removed; nil: it was not. The zero time is for a row without one.
// Without a key, and where the topic may have had fewer partitions when the row was published, that is any partition.
func (t *Topic) Doubt(rec *router.Record, at time.Time) *Removal {
	only := int32(-1)
	switch {
	case rec.Partition >= 0:
		only = rec.Partition
	case len(rec.Key) > 0 && !t.whole.IsZero() && !at.Before(t.whole):
		only = kafka.PartitionOf(rec.Key, len(t.spans))
	}
	var latest *Removal
	for i, before := range t.removed {
		mine := only < 0 || len(t.spans) == 1 || t.spans[i].Partition == only
		if mine && at.Before(before) && (latest == nil || before.After(latest.Before)) {
			latest = &Removal{t.spans[i], before}
		}
	}
	return latest
}
