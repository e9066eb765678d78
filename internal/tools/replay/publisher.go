package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/publish"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// batchRows and batchBytes bound the records in flight, and so the records that a kill repeats, and the memory.
	batchRows  = 500
	batchBytes = 4 << 20
	// examples is how many rows that cannot be published are named.
	examples = 10
)

// Pace is how rows are published.
type Pace struct {
	DryRun  bool // route the rows and count them, and publish nothing
	SkipBad bool // pass over rows that cannot be published
	Rate    int  // rows a second; 0 for no limit
	Timeout time.Duration
}

// publisher puts rows through router and producer, batch by batch; each is acknowledged before the next is begun.
type publisher struct {
	Pace
	run      string
	router   router.Router
	sender   *publish.Publisher // nil while nothing is to be published
	guard    *publish.Guard     // nil: no topic is refused
	place    lsn.LSN            // the commit that records seem to have
	unplaced bool               // records carry no position: as with a relay that polls
	began    time.Time

	rel    *pgoutput.Relation
	batch  []*router.Record
	ids    []string // of the batch
	bytes  int
	cursor Cursor    // of the last row that was added
	next   time.Time // before which Rate allows nothing

	rows     int64 // published, also by earlier parts of the run
	left     int64 // left out
	topics   map[string]*Topic
	bad      int64
	examples []string
}

// batchSize keeps a slow pace steady.
func batchSize(rate int) int {
	if rate == 0 {
		return batchRows
	}
	return min(batchRows, max(1, rate/4))
}

// Add routes a row, of which it keeps nothing, and reports whether the batch is full. An error is about the row; rows
// that were added before can still be flushed.
func (p *publisher) Add(row Row) (full bool, err error) {
	rec, err := p.route(row.Relation, row.Tuple)
	if err != nil {
		var bad *router.RowError
		if !errors.As(err, &bad) {
			return false, err
		}
		if err := p.refuse(bad.EventID, hint(bad)); err != nil {
			return true, err
		}
		p.cursor = row.Cursor
		return false, nil
	}
	own := rec.Clone()
	own.Headers = append(own.Headers, router.Header{Key: router.HeaderReplayed, Value: []byte(p.run)})
	p.batch, p.ids, p.cursor = append(p.batch, own), append(p.ids, deadletter.EventID(own.Headers)), row.Cursor
	p.bytes += own.Size()
	return len(p.batch) >= batchSize(p.Rate) || p.bytes >= batchBytes, nil
}

// hint names the flag of replay, if any, that helps with a bad row; the router's own remedy is about the application.
func hint(bad *router.RowError) error {
	if bad.Reason.Group() == router.GroupUnroutable {
		return fmt.Errorf("%s (%s); --topic names another topic", bad.Detail, bad.Reason)
	}
	return fmt.Errorf("%s (%s)", bad.Detail, bad.Reason)
}

// route makes the row's record, which is the router's until the next.
func (p *publisher) route(rel *pgoutput.Relation, row pgoutput.Tuple) (*router.Record, error) {
	if rel != p.rel {
		if err := p.router.Prepare(rel); err != nil {
			return nil, err
		}
		p.rel = rel
	}
	source := router.Source{CommitTime: p.began}
	if !p.unplaced {
		// The number counts the rows before it, also the rows of an earlier part of the run.
		position := offsets.Position{Commit: p.place, Index: uint32(p.rows+p.left) + uint32(len(p.batch))}
		source.Position, _ = position.AppendText(nil)
	}
	return p.router.Route(rel, row, source)
}

// refuse counts a row that cannot be published, or stops at it.
func (p *publisher) refuse(id string, err error) error {
	if !p.SkipBad && !p.DryRun {
		return &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("event %q", fault.Printable(id)), Err: err,
			Next: "Fix it, or pass over such rows with --skip-bad-rows; the same command with --resume goes on from " +
				"here.",
		}
	}
	p.bad++
	if len(p.examples) < examples {
		p.examples = append(p.examples, fault.Printable(id+": "+err.Error()))
	}
	return nil
}

// leaveOut takes records out of the batch, and returns how many.
func (p *publisher) leaveOut(out func(*router.Record) bool) int64 {
	kept := 0
	for i, rec := range p.batch {
		if !out(rec) {
			p.batch[kept], p.ids[kept] = rec, p.ids[i]
			kept++
		}
	}
	n := int64(len(p.batch) - kept)
	p.batch, p.ids, p.left = p.batch[:kept], p.ids[:kept], p.left+n
	return n
}

// Flush publishes the batch and returns the cursor of the last row that was added, nil if it has none.
func (p *publisher) Flush(ctx context.Context) (Cursor, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	if p.sender != nil && len(p.batch) > 0 {
		for _, rec := range p.batch {
			if err := p.guard.Judge(ctx, rec.Topic); err != nil {
				return nil, err
			}
		}
		// An operator who interrupts the run does not want the batch twice: the batch ends first.
		for i, o := range p.sender.Publish(context.WithoutCancel(ctx), p.batch, p.Timeout) {
			if o.Err == nil {
				continue
			}
			if o.Unknown {
				return nil, &fault.Error{
					Kind: fault.Operator, Object: "replay", Err: o.Err,
					Next: "When that is fixed, the same command with --resume goes on.",
				}
			}
			if err := p.refuse(p.ids[i], o.Err); err != nil {
				return nil, err
			}
			p.batch[i] = nil
		}
	}
	for _, rec := range p.batch {
		if rec != nil {
			p.count(rec)
		}
	}
	p.rows += int64(len(p.batch))
	p.batch, p.ids, p.bytes = p.batch[:0], p.ids[:0], 0
	cursor := p.cursor
	p.cursor = nil
	return cursor, nil
}

func (p *publisher) count(rec *router.Record) {
	t := p.topics[rec.Topic]
	if t == nil {
		t = &Topic{}
		p.topics[rec.Topic] = t
	}
	t.Records++
	t.Bytes += int64(rec.Size())
}

// wait keeps the rate. Time that Kafka took too long is not made up for afterwards.
func (p *publisher) wait(ctx context.Context) error {
	if p.Rate > 0 && p.sender != nil {
		now := time.Now()
		if p.next.Before(now) {
			p.next = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.next.Sub(now)):
		}
		p.next = p.next.Add(time.Duration(len(p.batch)) * time.Second / time.Duration(p.Rate))
	}
	return ctx.Err()
}

// notPublished is the sentence for rows that a policy would have to pass.
func notPublished(rows int64) string {
	were := " were"
	if rows == 1 {
		were = " was"
	}
	return human.Counted(rows, "row", "rows") + were + " not published"
}
