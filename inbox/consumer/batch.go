package consumer

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// batch is a list of steps of a partition that follow each other, with records that nothing keeps apart.
type batch struct {
	steps   []fetched
	records []Message
	ids     map[string]bool
	bytes   int
	next    int64
}

// batchBytes is the size of values at which a batch gets no further record: more would not be faster.
const batchBytes = 1 << 20

// collect adds steps that have been read ahead to the first one, as long as they fit.
func (p *partition) collect(step fetched) batch {
	most := min(len(p.ahead)+1, p.c.opts.Batch)
	b := batch{
		steps: make([]fetched, 0, most), records: make([]Message, 0, most), ids: make(map[string]bool, most),
		next: p.next,
	}
	if !p.add(&b, step) {
		return b
	}
	for r := p.peek(); r != nil && p.add(&b, fetchedOf(r)); r = p.peek() {
		p.drop()
	}
	return b
}

// add adds a step to the batch. It returns false for one that ends the batch: a record that is looked at alone, or
// after a gap, or that would make the batch too large, and a repeat, which the ledger or the memory of recent ids knows
// after the batch.
func (p *partition) add(b *batch, step fetched) bool {
	if step.isEvent {
		m, unnamed := p.c.read(step.record)
		if unnamed != nil || step.record.Offset != b.next || len(b.records) == p.c.opts.Batch ||
			b.bytes >= batchBytes || b.ids[m.ID] || p.recent.has(m.ID) ||
			p.holds != nil && !p.holds.passes(m, p.c.opts.HoldKeys) {
			return false
		}
		m.Attempt = 1
		b.records, b.bytes = append(b.records, m), b.bytes+len(m.Value)
		b.ids[m.ID] = true
	}
	b.steps, b.next = append(b.steps, step), step.next
	return true
}

// handleBatch handles the records together, and if that fails, one by one.
func (p *partition) handleBatch(work, over context.Context, b batch) error {
	if len(b.records) > 1 && p.tryBatch(work, over, b) {
		p.passed(b.next, b.records...)
		return nil
	}
	for _, step := range b.steps {
		if err := p.handleStep(work, over, step); err != nil || over.Err() != nil {
			return err
		}
	}
	return nil
}

// tryBatch gives the records to the handler, and reports whether they are done.
func (p *partition) tryBatch(work, over context.Context, b batch) bool {
	var ledger atomic.Bool
	p.begins(b.records[0], nil)
	err := p.c.call(inbox.Observe(work, func() { ledger.Store(true) }), b.records, p.c.opts.Budget)
	if err != nil && !errors.Is(err, inbox.ErrDuplicate) {
		if over.Err() == nil {
			p.c.opts.Logger.Warn("handling a batch failed, so its records are handled one by one", "topic", p.topic,
				"partition", p.id, "offset", p.next, "records", len(b.records), "error", err.Error())
		}
		return false
	}
	p.breaker = breaker{}
	if !ledger.Load() {
		for _, m := range b.records {
			p.recent.add(m.ID)
		}
	}
	return true
}
