package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partition reads one partition while it is assigned.
type partition struct {
	c *Consumer
	topicPartition
	next    int64 // offset; negative if nothing was committed yet
	open    func(tp topicPartition, at int64) *feed
	feed    *feed
	ahead   []*kgo.Record // taken from the feed
	bound   error         // after ahead
	recent  *recent
	holds   *holds // nil without Options.HoldKeys
	breaker breaker
	finish  func(tp topicPartition, next int64)
	commit  func(ctx context.Context, tp topicPartition, next int64) error
	*progress
	from *beginning
	of   topicID // of the topic
}

// fetched is a record, or an offset without a record to handle.
type fetched struct {
	record  Message
	isEvent bool
	next    int64 // the offset after it
}

// maxStrikes is how often in a row, a second apart, a broker must answer that the next offset is after the end of the
// partition. A new leader can answer so for a moment, while it does not know yet how much its followers have (KIP-207).
const maxStrikes = 10

// consume returns when over, the assignment, ends, or with an error that ends Run. Of ctx only the values are used.
func (p *partition) consume(ctx, over context.Context) error {
	work, release := drained(ctx, over, p.c.opts.Drain)
	defer release()
	if !p.begin(over) || !p.loadHeldKeys(work, over) {
		return nil
	}
	for strikes := 1; over.Err() == nil; strikes++ {
		if p.next >= 0 { // retention may have overtaken the group
			if err := p.check(over); err != nil {
				return err
			}
		}
		from := p.next
		err := p.read(work, over)
		if p.next != from {
			strikes = 1
		}
		var loss *kgo.ErrDataLoss
		switch {
		case err == nil:
			return nil
		case errors.As(err, &loss), errors.Is(err, kerr.OffsetOutOfRange) && strikes == maxStrikes:
			return &LostError{Topic: p.topic, Partition: p.id, Next: p.next, First: -1}
		case errors.As(err, new(*LostError)):
			return err
		case !errors.Is(err, kerr.OffsetOutOfRange):
			p.c.opts.Logger.Error("a partition cannot be read on, and waits",
				"topic", p.topic, "partition", p.id, "offset", p.next, "error", err.Error())
			strikes = 0
		}
		sleep(over, time.Second)
	}
	return nil
}

// read handles records until over ends, or nothing can be read after them.
func (p *partition) read(work, over context.Context) error {
	p.feed = p.open(p.topicPartition, p.next)
	p.ahead, p.bound = nil, nil
	defer p.feed.close()
	var look <-chan time.Time
	if p.holds != nil {
		ticker := time.NewTicker(holdEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	for over.Err() == nil {
		r := p.peek()
		switch {
		case r == nil && p.bound != nil:
			return p.bound
		case r == nil:
			select {
			case <-p.feed.ready:
			case <-look:
				p.lookAtLetters(work, over)
			case <-over.Done():
			}
			continue
		}
		p.drop()
		if err := p.advance(work, over, fetchedOf(r)); err != nil {
			return err
		}
		select {
		case <-look:
			p.lookAtLetters(work, over)
		default:
		}
	}
	return nil
}

// lookAtLetters handles letters that do not wait any more.
func (p *partition) lookAtLetters(work, over context.Context) {
	if len(p.holds.keys) > 0 && p.refresh(over) {
		p.resume(work, over)
	}
}

// drop removes the record that peek returned.
func (p *partition) drop() { p.ahead[0], p.ahead = nil, p.ahead[1:] }

func fetchedOf(r *kgo.Record) fetched {
	if r.Attrs.IsControl() {
		return fetched{next: r.Offset + 1}
	}
	return fetched{record: messageOf(r), isEvent: true, next: r.Offset + 1}
}

// peek returns the next record that has been read, nil if there is none.
func (p *partition) peek() *kgo.Record {
	if len(p.ahead) == 0 && p.bound == nil {
		p.ahead, p.bound = p.feed.take()
	}
	if len(p.ahead) == 0 {
		return nil
	}
	return p.ahead[0]
}

// advance handles a step, and with it steps that can be handled in a batch.
func (p *partition) advance(work, over context.Context, step fetched) error {
	if !p.c.batches || p.next < 0 {
		return p.handleStep(work, over, step)
	}
	b := p.collect(step)
	if len(b.steps) == 0 {
		return p.handleStep(work, over, step)
	}
	return p.handleBatch(work, over, b)
}

// handleStep handles one step. An assignment that ends meanwhile leaves the record to the next owner.
func (p *partition) handleStep(work, over context.Context, step fetched) error {
	if step.isEvent && p.next >= 0 && step.record.Offset > p.next { // compaction, or a loss
		if err := p.check(over); err != nil {
			return err
		}
	}
	if step.isEvent && p.next < 0 && p.c.opts.AddedInOrder {
		p.awaitOlder(over)
	}
	if over.Err() != nil {
		return nil //nolint:nilerr // that the assignment is over is not an error
	}
	var m Message
	if step.isEvent {
		var unnamed error
		if m, unnamed = p.c.read(step.record); !p.process(work, over, m, unnamed) {
			return nil
		}
	}
	p.passed(step.next, m)
	return nil
}

// passed notes that the records before next are done.
func (p *partition) passed(next int64, records ...Message) {
	p.next = next
	p.finish(p.topicPartition, next)
	p.done(next, records...)
}

// commitFrom commits the offset at which the group begins, for as long as it takes. Without that, a group that begins
// at the end would begin at a later end after each restart, until it has handled a first record.
func (p *partition) commitFrom(over context.Context, from func(context.Context) (int64, error), name string) {
	for over.Err() == nil {
		at, err := from(over)
		if err == nil {
			if err = p.commit(over, p.topicPartition, at); err == nil {
				p.next = at
				p.settled(at)
				return
			}
		}
		if over.Err() == nil {
			p.c.opts.Logger.Warn("committing where the group begins failed", "at", name,
				"topic", p.topic, "partition", p.id, "error", err.Error())
		}
		sleep(over, time.Second)
	}
}

func (p *partition) firstOffset(over context.Context) (int64, error) {
	return p.c.cluster.offset(over, p.topicPartition, atFirst, committed)
}

// lastStableOffset returns the offset after the last record that a reader of committed records may get.
func (p *partition) lastStableOffset(over context.Context) (int64, error) {
	return p.c.cluster.offset(over, p.topicPartition, atEnd, committed)
}

// check compares the next offset with the first existing offset. It repeats until the broker answers or the assignment
// is over.
func (p *partition) check(over context.Context) error {
	for over.Err() == nil {
		first, err := p.firstOffset(over)
		switch {
		case err == nil && first > p.next:
			return &LostError{Topic: p.topic, Partition: p.id, Next: p.next, First: first}
		case err == nil:
			return nil
		}
		if over.Err() == nil {
			p.c.opts.Logger.Warn("reading the first offset of the partition failed",
				"topic", p.topic, "partition", p.id, "error", err.Error())
		}
		sleep(over, time.Second)
	}
	return nil
}

// drained returns a context for handlers that ends drain after over.
func drained(ctx, over context.Context, drain time.Duration) (context.Context, func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-work.Done():
		case <-over.Done():
			sleep(work, drain)
			cancel()
		}
	}()
	return work, func() {
		cancel()
		<-ended
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
