package inbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// batch is a list of events without the repeats in it.
type batch struct {
	events  []Event
	firsts  []int  // indexes of the first event with each id
	ids     string // of firsts, sorted, as Postgres writes an array
	sources string // of the same events
	fresh   []int  // indexes of the events that are claimed
}

var only = []int{0}

// newBatch sorts the ids, so that two batches with the same events claim them in the same order. In different orders
// each would wait for the other.
func newBatch(events []Event) (*batch, error) {
	b := &batch{events: events, firsts: make([]int, 0, len(events))}
	known := make(map[string]bool, len(events))
	for i, e := range events {
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("event %d of the batch: %w", i, err)
		}
		if !known[e.ID] {
			known[e.ID] = true
			b.firsts = append(b.firsts, i)
		}
	}
	sorted := slices.SortedFunc(slices.Values(b.firsts), func(i, j int) int {
		return strings.Compare(events[i].ID, events[j].ID)
	})
	var ids, sources textArray
	for _, i := range sorted {
		ids.add(events[i].ID)
		sources.add(events[i].source())
	}
	b.ids, b.sources = ids.String(), sources.String()
	return b, nil
}

// textArray writes an array as text, which every driver can send (docs 8.15.6).
type textArray struct{ elements strings.Builder }

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// add adds a text, or NULL.
func (a *textArray) add(text any) {
	if a.elements.Len() > 0 {
		a.elements.WriteByte(',')
	}
	if text == nil {
		a.elements.WriteString("NULL")
		return
	}
	a.elements.WriteByte('"')
	_, _ = quoted.WriteString(&a.elements, text.(string)) // a Builder returns no error
	a.elements.WriteByte('"')
}

func (a *textArray) String() string { return "{" + a.elements.String() + "}" }

// runBatch repeats once, and counts the deliveries.
func (l *ledger) runBatch(ctx context.Context, events []Event, once func(b *batch) error) error {
	if len(events) == 0 {
		return nil
	}
	observed(ctx)
	b, err := newBatch(events)
	if err != nil {
		l.opts.Metrics.count(l.opts.Consumer, err)
		return err
	}
	err = l.repeat(ctx, func() error { return once(b) })
	l.opts.Metrics.countBatch(l.opts.Consumer, len(b.fresh), len(events)-len(b.fresh), err)
	return err
}

// onceEach claims the events, and runs handle for the new ones, in one transaction.
func (l *ledger) onceEach(ctx context.Context, s session, b *batch, handle func(fresh []int) error) error {
	if err := l.claimEach(ctx, s, b); err != nil {
		return err
	}
	if len(b.fresh) == 0 {
		return ErrDuplicate
	}
	return handle(b.fresh)
}

// claimEach reserves the events that were not handled yet, and finds out about the others that they were.
func (l *ledger) claimEach(ctx context.Context, s session, b *batch) error {
	ids, err := s.texts(ctx, l.each, l.opts.Consumer, b.ids, "COMPLETED", b.sources, idleLimit(ctx))
	switch {
	case err != nil:
		return ofClaim(ctx, fmt.Sprintf("%d events", len(b.firsts)), err)
	case len(ids) == len(b.firsts):
		b.fresh = b.firsts
		return nil
	}
	claimed := make(map[string]bool, len(ids))
	for _, id := range ids {
		claimed[id] = true
	}
	b.fresh = nil
	var before textArray
	for _, i := range b.firsts {
		if id := b.events[i].ID; claimed[id] {
			b.fresh = append(b.fresh, i)
		} else {
			before.add(id)
		}
	}
	return l.foundBefore(ctx, s, before.String())
}

// foundBefore returns nil for events that were handled.
func (l *ledger) foundBefore(ctx context.Context, s session, ids string) error {
	var state string
	if err := s.scan(ctx, &state, l.states, l.opts.Consumer, ids); err != nil {
		return ofLedger(fmt.Errorf("inbox: read the rows of events: %w", err))
	}
	switch state {
	case "completed":
		return nil
	case "unfinished":
		return ErrUnfinished
	}
	return ErrContended // deleted in between: the next delivery claims it
}
