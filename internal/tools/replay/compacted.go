package replay

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/hashjoin"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// compacted are the compacted topics that rows lead to. Of each key such a topic keeps the last record only. So an
// event that is not there is accounted for by a newer record of its key, and would take its place for good if it was
// published after it. Only a key without a newer record lacks something, and that is its newest event.
type compacted struct {
	topics map[string]bool
	// newest is by topic and key the latest timestamp. The connector and this command give a record the timestamp of
	// its row. A topic that notes the time of the append shows a later one: then an event counts as accounted for
	// rather than be published over a newer one.
	newest map[hashjoin.ID]int64
	ends   map[sink.Span]int64    // by topic and partition: how far the topic was read
	chosen map[hashjoin.ID]choice // by topic and key, the newest event that is not there
}

// choice is a row.
type choice struct {
	table     int
	hash      hashjoin.ID // of the id
	timestamp int64
}

func newCompacted() compacted {
	return compacted{
		topics: map[string]bool{}, newest: map[hashjoin.ID]int64{}, ends: map[sink.Span]int64{},
		chosen: map[hashjoin.ID]choice{},
	}
}

// slotOf is the place that the last record of a key has in a compacted topic.
func slotOf(topic string, key []byte) hashjoin.ID {
	return hashID(append([]byte(topic+"\x00"), key...))
}

// saw takes a record of a topic.
func (c *compacted) saw(m *sink.Message) {
	if !c.topics[m.Topic] {
		return
	}
	at := slotOf(m.Topic, m.Key)
	if before, ok := c.newest[at]; !ok || m.Timestamp > before {
		c.newest[at] = m.Timestamp
	}
	c.ends[sink.Span{Topic: m.Topic, Partition: m.Partition}] = m.Offset + 1
}

// superseded reports whether a compacted topic has a record of the key that is not older.
func (c *compacted) superseded(rec *router.Record) bool {
	if !c.topics[rec.Topic] {
		return false
	}
	at, ok := c.newest[slotOf(rec.Topic, rec.Key)]
	return ok && rec.Timestamp <= at
}

// supersede takes out the events that compacted topics do not lack.
func (r *repair) supersede(ctx context.Context, out decided) error {
	if len(r.compacted.topics) == 0 {
		return nil
	}
	drop := func(table int, hash hashjoin.ID) {
		r.report.Tables[table].Superseded++
		delete(r.absent, hash)
	}
	for i := range r.report.Tables {
		err := r.each(ctx, i, ignored, func(found foundRow) error {
			if _, missing := r.absent[found.hash]; !missing || !r.compacted.topics[found.topic] {
				return nil
			}
			if id := r.eventID(found.id); out.letters[id] || out.skipped[id] {
				return nil
			}
			if r.compacted.superseded(found.record) {
				drop(i, found.hash)
				return nil
			}
			at := slotOf(found.topic, found.record.Key)
			now := choice{i, found.hash, found.record.Timestamp}
			before, ok := r.compacted.chosen[at]
			switch {
			case !ok:
				r.compacted.chosen[at] = now
			case before.timestamp > now.timestamp:
				drop(i, now.hash)
			default:
				drop(before.table, before.hash)
				r.compacted.chosen[at] = now
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readOn reads what the compacted topics have got meanwhile, so that nothing is published over a newer record that the
// connector has written since.
func (r *repair) readOn(ctx context.Context) error {
	if len(r.compacted.topics) == 0 {
		return nil
	}
	if r.tail == nil {
		var err error
		if r.tail, err = r.o.Reader(); err != nil {
			return err
		}
	}
	for topic := range r.compacted.topics {
		spans, err := r.tail.Spans(ctx, topic)
		if errors.Is(err, sink.ErrNoTopic) {
			continue
		}
		if err != nil {
			return err
		}
		for _, span := range spans {
			span.From = max(span.From, r.compacted.ends[sink.Span{Topic: topic, Partition: span.Partition}])
			for m, err := range r.tail.Messages(ctx, span) {
				if err != nil {
					return err
				}
				r.compacted.saw(m)
			}
		}
	}
	return nil
}

// untimed reports whether rows of the tables have no time, so that nothing shows which of two events is newer.
func (r *repair) untimed() bool {
	for i, rows := range r.tables {
		if !rows.Timed() || r.report.Tables[i].Untimed > 0 {
			return true
		}
	}
	return false
}
