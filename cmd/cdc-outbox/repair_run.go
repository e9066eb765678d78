package main

import (
	"github.com/cdc-outbox/cdc-outbox/internal/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/progress"

	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/routing"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// repairing is replay, of rows that no topic has.
type repairing struct {
	replay
	options *repairOptions
	tables  []*outboxtable.Rows
	report  []*repaired
	leads   map[string]bool       // topics that rows lead to
	absent  map[[16]byte]struct{} // hashes of the ids, as records have them, that were not found in Kafka
	found   bool                  // Kafka was read
}

// newRepairing holds a lock on a session of its own until close.
func (a *app) newRepairing(ctx context.Context, c *config.Loaded, s wiring.Target, o *repairOptions, filter outboxtable.Filter) (*repairing, error) {
	route, err := routing.NewTo(c, "")
	if err != nil {
		return nil, err
	}
	r := &repairing{options: o, leads: map[string]bool{}, absent: map[[16]byte]struct{}{}}
	r.replay = replay{o: &o.replayOptions, router: route, state: &replayState{Run: newRunID()}, progress: a.stderr, topics: map[string]*replayedTopic{}, began: time.Now()}
	for _, name := range o.topics {
		r.leads[name] = true
	}
	for _, t := range s.Admin.Tables {
		rows, err := outboxtable.Open(ctx, s.DSN, s.Admin, t, filter)
		if err != nil {
			r.close()
			return nil, err
		}
		r.sayOrder(rows)
		r.tables, r.report = append(r.tables, rows), append(r.report, &repaired{Table: t.String(), Examples: []string{}})
	}
	alone, err := r.tables[0].Alone(ctx, "cdc-outbox repair "+s.Admin.Slot)
	if err == nil && !alone {
		err = &fault.Error{Kind: fault.Operator, Object: "repair", Err: errors.New("another one is at work for this slot; each would publish what the other does"), Next: "Wait for its end."}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *repairing) close() {
	for _, rows := range r.tables {
		rows.Close()
	}
}

// each routes the rows of a table. row gets the id that the record has, hashed; a row that makes none is counted by bad.
func (r *repairing) each(ctx context.Context, table int, bad func(), row func(rec *router.Record, hash [16]byte, rel *pgoutput.Relation, tuple pgoutput.Tuple, key outboxtable.Key) error) error {
	var after *outboxtable.Key
	for more := true; more; {
		var err error
		more, err = r.tables[table].Page(ctx, after, r.pageSize(), func(rel *pgoutput.Relation, tuple pgoutput.Tuple, key outboxtable.Key) error {
			after = &key
			rec, err := r.route(rel, tuple)
			var no *router.RowError
			if errors.As(err, &no) {
				bad()
				return nil
			}
			if err != nil {
				return err
			}
			id, ok := idHeader(rec)
			if !ok {
				return &fault.Error{Kind: fault.Config, Object: "repair", Err: errors.New("records have no header with an id, so what Kafka has cannot be compared")}
			}
			return row(rec, hashID(id), rel, tuple, key)
		})
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}

// hashID keeps ids of any length in 16 bytes each.
func hashID(id []byte) [16]byte {
	sum := sha256.Sum256(id)
	return [16]byte(sum[:16])
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

// survey notes the ids of all rows and the topics they lead to.
func (r *repairing) survey(ctx context.Context) error {
	for i, t := range r.report {
		err := r.each(ctx, i, func() { t.Rows++; t.Unrouted++ }, func(rec *router.Record, hash [16]byte, _ *pgoutput.Relation, _ pgoutput.Tuple, _ outboxtable.Key) error {
			t.Rows++
			r.leads[rec.Topic] = true
			r.absent[hash] = struct{}{}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// strikeOff takes out what Kafka has. The doubts are why something that is not there may have been there.
func (a *app) strikeOff(ctx context.Context, c *config.Loaded, r *repairing) (doubts []error, err error) {
	cfg, err := wiring.Kafka(c)
	if err != nil {
		return nil, err
	}
	consumer, err := reader.New(cfg.Cluster)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	defer a.progress().Wait(progress.Reading(consumer))()
	for topic := range r.leads {
		spans, err := consumer.Spans(ctx, topic)
		if errors.Is(err, reader.ErrNoTopic) {
			continue // it holds none
		}
		if err != nil {
			return nil, err
		}
		compacted, known, err := consumer.Compacted(ctx, topic)
		if err != nil {
			return nil, err
		}
		if compacted || !known {
			doubts = append(doubts, inDoubt(topic, compacted))
		}
		for _, span := range spans {
			doubt, err := r.strike(ctx, consumer, span)
			if err != nil {
				return nil, err
			}
			if doubt != nil {
				doubts = append(doubts, doubt)
			}
		}
	}
	return doubts, nil
}

func inDoubt(topic string, compacted bool) error {
	f := &fault.Error{Kind: fault.Operator, Object: fmt.Sprintf("topic %q", topic), Err: errors.New("it is compacted: of each key Kafka keeps the last record only, so what is not there may have been published and removed"),
		Next: "cdc-outbox repair --yes-publish-twice"}
	if !compacted {
		f.Err = errors.New("it is not known whether it is compacted, because the user may not read its configuration; then what is not there may have been published and removed")
		f.Next = "kafka-acls --add --operation DescribeConfigs --topic " + topic + "\n# or, where you know that it is not:\ncdc-outbox repair --yes-publish-twice"
	}
	return f
}

func (r *repairing) strike(ctx context.Context, consumer *reader.Reader, span reader.Span) (doubt, err error) {
	object, first := fmt.Sprintf("topic %q partition %d", span.Topic, span.Partition), true
	since := r.tables[0].Since()
	for m, err := range consumer.Messages(ctx, span) {
		if err != nil {
			return nil, err
		}
		// Retention has begun to remove records here: what it removed must not be taken for lost.
		if oldest := time.UnixMilli(m.Timestamp); first && span.From > 0 && since.Before(oldest) {
			doubt = &fault.Error{
				Kind: fault.Operator, Object: object, Err: fmt.Errorf("its records begin at %s; older ones were removed, and count as missing", oldest.UTC().Format(time.RFC3339)),
				Next: "cdc-outbox repair --since " + oldest.Add(time.Minute).UTC().Format(time.RFC3339) + "\n# or, where all that is missing is to be published, whether it was there or not:\ncdc-outbox repair --yes-publish-twice",
			}
		}
		first = false
		id, ok := m.Header("id")
		if !ok {
			id, ok = m.Header("ce_id")
		}
		if ok { // the rest is somebody else's, or from before there were ids
			delete(r.absent, hashID(id))
		}
	}
	if first && span.From > 0 && since.IsZero() {
		doubt = &fault.Error{
			Kind: fault.Operator, Object: object, Err: errors.New("all of its records were removed, and count as missing"),
			Next: "Name with --since a time from which on no topic has lost records to retention.\n# or, where all that is missing is to be published, whether it was there or not:\ncdc-outbox repair --yes-publish-twice",
		}
	}
	return doubt, nil
}

// name counts what is missing, by table, and names some of it.
func (r *repairing) name(ctx context.Context) error {
	if len(r.absent) == 0 {
		return nil
	}
	for i, t := range r.report {
		err := r.each(ctx, i, func() {}, func(_ *router.Record, hash [16]byte, _ *pgoutput.Relation, _ pgoutput.Tuple, key outboxtable.Key) error {
			if _, missing := r.absent[hash]; missing {
				if t.Missing++; len(t.Examples) < replayExamples {
					t.Examples = append(t.Examples, key.ID)
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

func (r *repairing) missing() (n int64) {
	for _, t := range r.report {
		n += t.Missing
	}
	return n
}

// publish publishes the rows of a table that are missing. To a consumer that keeps the last position of each key they must
// not look older than what it has: they get the one in front of the end of the log, at which no commit can stand, since records
// of the log begin at multiples of 8.
func (r *repairing) publish(ctx context.Context, table int) error {
	end, err := r.tables[table].WALEnd(ctx)
	if err != nil {
		return err
	}
	r.place = offsets.LSN(end) - 1
	before := r.state.Rows
	err = r.each(ctx, table, func() {}, func(_ *router.Record, hash [16]byte, rel *pgoutput.Relation, tuple pgoutput.Tuple, _ outboxtable.Key) error {
		if _, missing := r.absent[hash]; !missing {
			return nil
		}
		return r.take(ctx, rel, tuple, nil)
	})
	if err == nil {
		err = r.flush(ctx)
	}
	r.report[table].Published = r.state.Rows - before
	return err
}
