package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// headerReplayed marks a record that was published from the table; its value is the run's id.
	headerReplayed = "replayed"
	// replayBatch and replayBytes bound what is in flight, and so what a kill repeats and what is held in memory.
	replayBatch = 500
	replayBytes = 4 << 20
	// replayExamples is how many rows that cannot be published are named.
	replayExamples = 10
)

// replay puts rows through router and producer, batch by batch; each is acknowledged before the next is begun.
type replay struct {
	o        *replayOptions
	router   router.Router
	pub      *publisher // nil in a dry run
	state    *replayState
	progress io.Writer
	place    offsets.LSN
	unplaced bool // records carry no position: those of a relay that polls don't

	rel     *pgoutput.Relation
	batch   []*router.Record
	ids     []string // of the batch
	bytes   int
	advance func() // moves the state behind the batch's last row

	topics   map[string]*replayedTopic
	bad      int64
	examples []string
	began    time.Time
	next     time.Time // before which --rate allows nothing
	said     time.Time
}

type replayedTopic struct {
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// batchSize keeps the pace even where it is slow.
func (r *replay) batchSize() int {
	if r.o.rate == 0 {
		return replayBatch
	}
	return min(replayBatch, max(1, r.o.rate/4))
}

// pageSize lets no statement last for much longer than some seconds, at the rate at which its rows are taken.
func (r *replay) pageSize() int {
	if r.o.rate == 0 {
		return 5000
	}
	return min(5000, max(100, 5*r.o.rate))
}

// take routes a row, which it keeps nothing of. done moves the state behind it.
func (r *replay) take(ctx context.Context, rel *pgoutput.Relation, row pgoutput.Tuple, done func()) error {
	rec, err := r.route(rel, row)
	if err != nil {
		var bad *router.RowError
		if !errors.As(err, &bad) {
			return err
		}
		if err := r.refuse(bad.EventID, hint(err)); err != nil {
			return errors.Join(r.flush(ctx), err)
		}
		r.advance = done
		return nil
	}
	own := rec.Clone()
	own.Headers = append(own.Headers, router.Header{Key: headerReplayed, Value: []byte(r.state.Run)})
	r.batch, r.ids, r.bytes, r.advance = append(r.batch, own), append(r.ids, deadletter.EventID(own.Headers)), r.bytes+own.Size(), done
	if len(r.batch) >= r.batchSize() || r.bytes >= replayBytes {
		return r.flush(ctx)
	}
	return nil
}

// route makes the row's record, which is the router's until the next.
func (r *replay) route(rel *pgoutput.Relation, row pgoutput.Tuple) (*router.Record, error) {
	if rel != r.rel {
		if err := r.router.Prepare(rel); err != nil {
			return nil, err
		}
		r.rel = rel
	}
	// The number counts the rows before it, also those of an earlier part of the run.
	position := offsets.Position{Commit: r.place, Index: uint32(r.state.Rows) + uint32(len(r.batch))}
	text, _ := position.AppendText(nil)
	return r.router.Route(rel, row, router.Source{Position: r.placed(text), CommitTime: r.began})
}

// refuse counts a row that cannot be published, or stops at it.
func (r *replay) refuse(id string, err error) error {
	if !r.o.skipBad && !r.o.dryRun {
		return &fault.Error{Kind: fault.Operator, Object: fmt.Sprintf("event %q", fault.Printable(id)), Err: err,
			Next: "Mend it, or pass over such rows with --skip-bad-rows; the same command with --resume goes on from here."}
	}
	r.bad++
	if len(r.examples) < replayExamples {
		r.examples = append(r.examples, fault.Printable(id+": "+err.Error()))
	}
	return nil
}

// flush publishes the batch and remembers that.
func (r *replay) flush(ctx context.Context) error {
	if err := r.wait(ctx); err != nil {
		return err
	}
	if r.pub != nil && len(r.batch) > 0 {
		// Whoever interrupts the run does not want the batch twice: it ends first.
		for i, o := range r.pub.Publish(context.WithoutCancel(ctx), r.batch, r.o.timeout) {
			if o.Err == nil {
				continue
			}
			if o.Unknown {
				return &fault.Error{Kind: fault.Operator, Object: "replay", Err: o.Err, Next: "When that is mended, the same command with --resume goes on."}
			}
			if err := r.refuse(r.ids[i], o.Err); err != nil {
				return err
			}
			r.batch[i] = nil
		}
	}
	for _, rec := range r.batch {
		if rec == nil {
			continue
		}
		t := r.topics[rec.Topic]
		if t == nil {
			t = &replayedTopic{}
			r.topics[rec.Topic] = t
		}
		t.Records++
		t.Bytes += int64(rec.Size())
	}
	r.state.Rows += int64(len(r.batch))
	r.batch, r.ids, r.bytes = r.batch[:0], r.ids[:0], 0
	if r.advance != nil {
		r.advance()
	}
	r.say()
	return r.state.save()
}

// wait keeps the rate. Time that Kafka took too long is not made up for afterwards.
func (r *replay) wait(ctx context.Context) error {
	if r.o.rate > 0 && r.pub != nil {
		now := time.Now()
		if r.next.Before(now) {
			r.next = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.next.Sub(now)):
		}
		r.next = r.next.Add(time.Duration(len(r.batch)) * time.Second / time.Duration(r.o.rate))
	}
	return ctx.Err()
}

func (r *replay) say() {
	if now := time.Now(); now.Sub(r.said) >= 5*time.Second {
		if !r.said.IsZero() {
			at := ""
			if k := r.state.Key; k != nil && k.Timestamp != nil {
				at = ", up to " + *k.Timestamp
			}
			for _, span := range r.state.Spans {
				if span.From < span.End {
					at = fmt.Sprintf(", up to offset %d of %d in topic %s, partition %d", span.From, span.End, span.Topic, span.Partition)
					break
				}
			}
			fmt.Fprintf(r.progress, "%d rows%s\n", r.state.Rows, at)
		}
		r.said = now
	}
}

// replaySummary is what replay prints.
type replaySummary struct {
	Run       string                    `json:"run"`
	Done      bool                      `json:"done"`
	DryRun    bool                      `json:"dry_run"`
	Rows      int64                     `json:"rows"` // also those of earlier parts of the run
	Topics    map[string]*replayedTopic `json:"topics"`
	Unpublish int64                     `json:"not_published"`
	Examples  []string                  `json:"examples"`
	Seconds   float64                   `json:"seconds"`
}

func (a *app) printReplay(r *replay) error {
	s := replaySummary{Run: r.state.Run, Done: r.state.Done && !r.o.dryRun, DryRun: r.o.dryRun, Rows: r.state.Rows, Topics: r.topics, Unpublish: r.bad,
		Examples: append([]string{}, r.examples...), Seconds: time.Since(r.began).Seconds()}
	if r.o.asJSON {
		return a.printJSON(s)
	}
	what, not := "published", "not published"
	if r.o.dryRun {
		what, not = "would be published", "cannot be published"
	}
	for _, name := range slices.Sorted(maps.Keys(r.topics)) {
		fmt.Fprintf(a.stdout, "%s: %d records %s, %d bytes\n", name, r.topics[name].Records, what, r.topics[name].Bytes)
	}
	for _, line := range r.examples {
		fmt.Fprintf(a.stdout, "%s: %s\n", not, line)
	}
	_, err := fmt.Fprintf(a.stdout, "run %s: %s %s, %d %s\n", s.Run, counted(s.Rows, "row", "rows"), what, s.Unpublish, not)
	return err
}

// placed is the position that a record carries.
func (r *replay) placed(position []byte) []byte {
	if r.unplaced {
		return nil
	}
	return position
}
