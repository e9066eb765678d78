package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/publish"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// marker marks letters and publishes their records.
type marker struct {
	*publish.Publisher
	attempt string
	timeout time.Duration
}

// retry publishes the batch's records between marks. First each letter's mark: begun; every other process that retries
// the same letter sees it. Then, if no other process was first, the record, then the mark that says how it ended. A
// crash in between leaves a letter whose retry began: it is not known whether its record is in Kafka, and nothing
// publishes it again unasked. The file that letters are from has the same marks, because the topic's retention deletes
// its own.
func (p *marker) retry(ctx context.Context, b *letterbox.Box, batch []*Letter) error {
	live := p.writeMarks(ctx, b, ready(batch), deadletter.Begun)
	if len(live) == 0 {
		return nil
	}
	if err := p.awaitMarks(ctx, b, live); err != nil {
		p.writeMarks(context.WithoutCancel(ctx), b, live, deadletter.Withdrawn)
		return err
	}
	withdrawn := p.outdone(live)
	live = ready(live)
	if err := p.note(b, live, deadletter.Begun); err != nil {
		p.writeMarks(context.WithoutCancel(ctx), b, slices.Concat(live, withdrawn), deadletter.Withdrawn)
		return &fault.Error{
			Kind: fault.Operator, Object: "dead-letter retry", Err: err,
			Next: "Nothing of the last batch was published. Make room for the file, and run the command again.",
		}
	}
	published, unpublished := p.send(ctx, live)
	withdrawn = append(withdrawn, unpublished...)
	// Published letters must be marked, also if an operator has pressed Ctrl-C meanwhile.
	ctx = context.WithoutCancel(ctx)
	p.writeMarks(ctx, b, withdrawn, deadletter.Withdrawn)
	p.writeMarks(ctx, b, published, deadletter.Published)
	unnoted := errors.Join(p.note(b, withdrawn, deadletter.Withdrawn), p.note(b, published, deadletter.Published))
	for _, r := range published {
		switch {
		case r.Err != nil:
			r.Err = fmt.Errorf(
				"the record is published, but the dead-letter topic did not take the mark that says so: %w", r.Err,
			)
		case unnoted != nil:
			r.Err = fmt.Errorf("the record is published, but %w", unnoted)
		}
	}
	return nil
}

// outdone returns the letters whose retry is not this process's: it gives them the reason.
func (p *marker) outdone(live []*Letter) (withdrawn []*Letter) {
	for _, r := range live {
		switch {
		case !r.Entry.Knows(p.attempt):
			r.Err = errors.New(
				"the mark of this retry cannot be read yet, because a transaction is open in the dead-letter topic; " +
					"try again",
			)
		case r.Entry.Rival(p.attempt, r.known):
			r.Err = errors.New("another process is retrying it")
		default:
			continue
		}
		withdrawn = append(withdrawn, r)
	}
	return withdrawn
}

// send publishes the letters' records. A letter whose outcome is not known is in neither list.
func (p *marker) send(ctx context.Context, live []*Letter) (published, unpublished []*Letter) {
	records := make([]*router.Record, len(live))
	for i, r := range live {
		records[i] = r.Record
	}
	for i, o := range p.Publish(ctx, records, p.timeout) {
		switch live[i].Err = o.Err; {
		case o.Err == nil:
			published = append(published, live[i])
		case !o.Unknown:
			unpublished = append(unpublished, live[i])
		default:
			live[i].Err = fmt.Errorf("%w; it may still have been published", o.Err)
		}
	}
	return published, unpublished
}

// note remembers marks in the letters' file, if they are from one.
func (p *marker) note(b *letterbox.Box, batch []*Letter, mark deadletter.Mark) error {
	marks := make([]*router.Record, len(batch))
	for i, r := range batch {
		marks[i] = r.Entry.MarkRecord(b.Topic, p.attempt, mark, time.Now())
	}
	return b.Note(marks)
}

// awaitMarks reads up to the batch's own marks. A connector with exactly-once delivery may have a transaction open in
// the topic, and records after its beginning are not read before its end.
func (p *marker) awaitMarks(ctx context.Context, b *letterbox.Box, batch []*Letter) error {
	unread := func(l *Letter) bool { return !l.Entry.Knows(p.attempt) }
	for until := time.Now().Add(p.timeout); ; {
		if err := b.Refresh(ctx); err != nil {
			return err
		}
		if !slices.ContainsFunc(batch, unread) || time.Now().After(until) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func ready(batch []*Letter) []*Letter {
	var out []*Letter
	for _, r := range batch {
		if r.Err == nil {
			out = append(out, r)
		}
	}
	return out
}

// writeMarks writes a mark for each letter and returns the letters whose mark is in the topic. A retrial keeps the
// first error it had.
func (p *marker) writeMarks(ctx context.Context, b *letterbox.Box, batch []*Letter, mark deadletter.Mark) []*Letter {
	records := make([]*router.Record, len(batch))
	for i, r := range batch {
		records[i] = r.Entry.MarkRecord(b.Topic, p.attempt, mark, time.Now())
	}
	var done []*Letter
	for i, o := range p.Publish(ctx, records, p.timeout) {
		if o.Err == nil {
			done = append(done, batch[i])
		} else if batch[i].Err == nil {
			batch[i].Err = o.Err
		}
	}
	return done
}
