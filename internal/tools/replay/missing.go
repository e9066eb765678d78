package replay

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/absence"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/hashjoin"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// survey notes the ids of all rows and the topics they lead to.
func (r *repair) survey(ctx context.Context) error {
	for i, t := range r.report.Tables {
		var err error
		if t.Untimed, err = r.tables[i].Untimed(ctx); err != nil {
			return err
		}
		err = r.each(ctx, i, func(outboxtable.Key) { t.Rows++; t.Unrouted++ }, func(found foundRow) error {
			t.Rows++
			if t.Rows%stepRecords == 0 {
				r.o.Progress.Step(progress.Step{What: "reading table " + t.Table, Done: t.Rows, Unit: "rows"})
			}
			r.leads[found.topic] = true
			r.events.Left(found.hash, uint16(i))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tmpFault is about the files of the comparison.
func tmpFault(err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{
		Kind: fault.Fatal, Object: "temporary files", Err: err,
		Next: "Name a directory of another disk in the environment's TMPDIR.",
	}
}

// subtract notes the rows that the broker does not have.
func (r *repair) subtract() error {
	return tmpFault(r.events.Each(func(id hashjoin.ID, tables []uint16, published bool) {
		for _, table := range tables[1:] {
			r.report.Tables[table].SameID++
		}
		if !published {
			r.absent[id] = struct{}{}
		}
	}))
}

// ignored is for rows that make no record.
func ignored(outboxtable.Key) {}

// name counts the missing rows, by table, and names some of them. A row that was kept out of its topic by decision is
// not missing.
func (r *repair) name(ctx context.Context) error {
	if len(r.absent) == 0 && r.ids == nil {
		return nil
	}
	out, err := r.readDecided(ctx)
	if err != nil {
		return err
	}
	if err := r.supersede(ctx, out); err != nil {
		return err
	}
	for i, t := range r.report.Tables {
		bad := func(key outboxtable.Key) {
			if r.ids != nil && !out.letters[key.ID] && !out.skipped[key.ID] {
				r.ids[i] = append(r.ids[i], key.ID) // no policy has decided about it
			}
		}
		err := r.each(ctx, i, bad, func(found foundRow) error {
			if _, missing := r.absent[found.hash]; !missing {
				return nil
			}
			switch id := r.eventID(found.id); {
			case out.letters[id]:
				t.Lettered++
				delete(r.absent, found.hash)
			case out.skipped[id]:
				t.Skipped++
				delete(r.absent, found.hash)
			default:
				if t.Missing++; len(t.Examples) < examples {
					t.Examples = append(t.Examples, found.key.ID)
				}
				r.judge(t, i, found.record)
				if r.ids != nil {
					r.ids[i] = append(r.ids[i], found.key.ID)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readTopics notes the ids of the events that the broker has. The doubts are why, whatever the row, an event that is
// not there may have been there.
func (r *repair) readTopics(ctx context.Context) (doubts []error, err error) {
	consumer, err := r.o.Reader()
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	r.report.Broker = consumer.Names().Broker
	defer r.o.Progress.Wait(progress.Reading(consumer))()
	for topic := range r.leads {
		spans, err := consumer.Spans(ctx, topic)
		if errors.Is(err, sink.ErrNoTopic) {
			continue // it holds none
		}
		if err != nil {
			return nil, err
		}
		compacted, known, err := consumer.Compacted(ctx, topic)
		if err != nil {
			return nil, err
		}
		switch {
		case !known || compacted && r.untimed():
			doubts = append(doubts, inDoubt(topic, compacted))
		case compacted:
			r.compacted.topics[topic] = true
		}
		r.toRead += offsetsIn(spans)
		for _, span := range spans {
			if err := r.readSpan(ctx, consumer, span); err != nil {
				return nil, err
			}
		}
		if r.removed[topic], err = absence.Look(ctx, consumer, topic); err != nil {
			return nil, err
		}
	}
	return doubts, nil
}

func inDoubt(topic string, compacted bool) error {
	f := &fault.Error{
		Kind: fault.Operator, Object: fmt.Sprintf("topic %q", topic), Err: errors.New(
			"it is compacted: of each key Kafka keeps the last record only, and the rows have no time that shows " +
				"which of two events is the newer one",
		),
		Next: "Set router.columns.timestamp. To publish all that is missing, although older events may then replace " +
			"newer ones for good, run `cdc-outbox repair --yes-publish-twice` instead.",
	}
	if !compacted {
		f.Err = errors.New(
			"it is not known whether it is compacted, because the user may not read its configuration; then what is " +
				"not there may have been published and removed",
		)
		f.Next = "Let the user read the topic's configuration. Where you know that the topic is not compacted, run " +
			"`cdc-outbox repair --yes-publish-twice` instead."
		f.Commands = []string{"kafka-acls.sh --add --operation DescribeConfigs --topic " + topic}
	}
	return f
}

// readSpan notes the ids of a partition's events.
func (r *repair) readSpan(ctx context.Context, consumer sink.Reader, span sink.Span) error {
	for m, err := range consumer.Messages(ctx, span) {
		if err != nil {
			return err
		}
		r.compacted.saw(m)
		if r.read++; r.read%stepRecords == 0 {
			r.o.Progress.Step(progress.Step{
				What: "reading topic " + span.Topic, Done: r.read, Total: r.toRead, About: true, Unit: "records",
			})
		}
		id, ok := m.Header("id")
		if !ok {
			id, ok = m.Header("ce_id")
		}
		if ok { // the rest is another producer's, or from before there were ids
			if err := r.events.Right(hashID(id)); err != nil {
				return tmpFault(err)
			}
		}
	}
	return nil
}

// hashID keeps ids of any length in 16 bytes each.
func hashID(id []byte) hashjoin.ID {
	sum := sha256.Sum256(id)
	return hashjoin.ID(sum[:16])
}

// idHeader is the event's id as the records of the topic have it.
func idHeader(rec *router.Record) ([]byte, bool) {
	for _, name := range []string{"id", "ce_id"} {
		for i := range rec.Headers {
			if rec.Headers[i].Key == name {
				return rec.Headers[i].Value, true
			}
		}
	}
	return nil, false
}
