package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

// partition reads one partition while it is assigned.
type partition struct {
	c       *Consumer
	topic   string
	id      int
	next    int64 // offset; negative (kafka.FirstOffset, LastOffset) if nothing was committed yet
	recent  *recent
	holds   *holds // nil without Options.HoldKeys
	breaker breaker
	finish  func(topic string, partition int, next int64)
	commit  func(topic string, partition int, next int64) error
	*progress
	ids *topicIDs
}

// maxStrikes is how often in a row, a second apart, a broker must answer that the next offset is after the end of the
// partition. A new leader can answer so for a moment, while it does not know yet how much its followers have (KIP-207).
const maxStrikes = 10

// consume returns when over, the generation, ends, or with an error that ends Run. Of ctx only the values are used.
func (p *partition) consume(ctx, over context.Context) error {
	work, release := drained(ctx, over, p.c.opts.Drain)
	defer release()
	if !p.loadHeldKeys(work, over) {
		return nil
	}
	if !p.beginAgain(over) {
		return nil
	}
	switch {
	case p.next >= 0:
		if err := p.check(over); err != nil {
			return err
		}
	case p.next == kafka.LastOffset:
		p.commitFrom(over, p.lastStableOffset, "the end of the partition")
	}
	for strikes := 1; ; strikes++ {
		from := p.next
		err := p.read(work, over)
		if p.next != from {
			strikes = 1
		}
		if !errors.Is(err, kafka.OffsetOutOfRange) {
			return err
		}
		if p.next >= 0 { // retention may have overtaken the group
			if err := p.check(over); err != nil {
				return err
			}
		}
		if strikes == maxStrikes {
			return &LostError{Topic: p.topic, Partition: p.id, Next: p.next, First: -1}
		}
		sleep(over, time.Second)
	}
}

// read handles records until over ends or the broker answers OffsetOutOfRange.
func (p *partition) read(work, over context.Context) error {
	reading, stop := context.WithCancel(over)
	steps := make(chan fetched, p.c.opts.Queue)
	f := fetcher{client: p.c.client, topic: p.topic, partition: p.id, at: p.next}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(reading, steps)
	}()
	defer func() {
		stop()
		<-ended
	}()
	var look <-chan time.Time
	if p.holds != nil {
		ticker := time.NewTicker(holdEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		var step fetched
		select {
		case <-look:
			if len(p.holds.keys) > 0 && (!p.refresh(over) || !p.resume(work, over)) {
				return nil
			}
			continue
		case next, ok := <-steps:
			if !ok {
				return nil
			}
			step = next
		}
		for left := &step; left != nil; {
			var err error
			if left, err = p.advance(work, over, *left, steps); err != nil || over.Err() != nil {
				return err
			}
		}
	}
}

// advance handles a step, and with it steps that can be handled in a batch. It returns a step after them that cannot.
func (p *partition) advance(
	work, over context.Context, step fetched, ahead <-chan fetched,
) (left *fetched, err error) {
	if over.Err() != nil {
		return nil, nil //nolint:nilerr // that the generation is over is not an error
	}
	switch {
	case errors.Is(step.err, kafka.OffsetOutOfRange):
		return nil, step.err
	case step.err != nil:
		p.c.opts.Logger.Warn("reading failed",
			"topic", p.topic, "partition", p.id, "error", step.err.Error())
		return nil, nil //nolint:nilerr // the fetcher tries again
	case !p.c.batches || p.next < 0:
		return nil, p.handleStep(work, over, step)
	}
	b, left := p.collect(step, ahead)
	if len(b.steps) == 0 {
		return nil, p.handleStep(work, over, step)
	}
	return left, p.handleBatch(work, over, b)
}

// handleStep handles one step. A generation that ends meanwhile leaves the record to the next owner.
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
		return nil //nolint:nilerr // that the generation is over is not an error
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
	p.finish(p.topic, p.id, next)
	p.done(next, records...)
}

// commitFrom commits the offset at which the group begins, for as long as it takes. Without that, a group that begins
// at the end would begin at a later end after each restart, until it has handled a first record.
func (p *partition) commitFrom(over context.Context, from func(context.Context) (int64, error), name string) {
	for over.Err() == nil {
		at, err := from(over)
		if err == nil {
			if err = p.commit(p.topic, p.id, at); err == nil {
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
	return firstOffset(over, p.c.client, p.topic, p.id)
}

// lastStableOffset returns the offset after the last record that a reader of committed records may get.
func (p *partition) lastStableOffset(over context.Context) (int64, error) {
	answer, err := answered(over, p.c.client.ListOffsets, &kafka.ListOffsetsRequest{
		Topics:         map[string][]kafka.OffsetRequest{p.topic: {kafka.LastOffsetOf(p.id)}},
		IsolationLevel: kafka.ReadCommitted,
	})
	if err != nil {
		return 0, err
	}
	for _, offsets := range answer.Topics[p.topic] {
		return offsets.LastOffset, offsets.Error
	}
	return 0, errors.New("the broker's answer does not name the partition")
}

// check compares the next offset with the first existing offset. It repeats until the broker answers or the generation
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
