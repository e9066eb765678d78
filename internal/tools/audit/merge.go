package audit

import (
	"fmt"
	"iter"
	"time"
)

// event is a row of the outbox.
type event struct {
	id        string
	at        time.Time
	published bool
	beside    bool // an archived row that the window or the consumer leaves out: its id was committed
}

// handled is a row of a ledger.
type handled struct {
	id   string
	at   time.Time
	done bool // COMPLETED; otherwise it is not known whether the event had its effect
}

// merge walks two streams that are ordered by id, byte by byte, and calls visit for each id: with the row of either
// stream, nil if a stream has none. Rows of the outbox that share an id come one after the other, each with the one row
// of the ledger. Nothing that visit gets may be kept.
func merge(
	events iter.Seq2[event, error], ledger iter.Seq2[handled, error], visit func(e *event, h *handled) error,
) error {
	nextEvent, stopEvents := iter.Pull2(ordered(events, func(e event) string { return e.id }, "outbox"))
	defer stopEvents()
	nextHandled, stopHandled := iter.Pull2(ordered(ledger, func(h handled) string { return h.id }, "ledger"))
	defer stopHandled()
	e, eErr, moreE := nextEvent()
	h, hErr, moreH := nextHandled()
	matched := false // the present row of the ledger has been visited
	for moreE || moreH {
		if eErr != nil || hErr != nil {
			return firstOf(eErr, hErr)
		}
		var err error
		switch {
		case moreE && moreH && e.id == h.id:
			err, matched = visit(&e, &h), true
			e, eErr, moreE = nextEvent()
		case moreE && (!moreH || e.id < h.id):
			err = visit(&e, nil)
			e, eErr, moreE = nextEvent()
		default:
			if !matched {
				err = visit(nil, &h)
			}
			matched = false
			h, hErr, moreH = nextHandled()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ordered refuses a stream that is not in the order that the merge relies on.
func ordered[T any](rows iter.Seq2[T, error], id func(T) string, what string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		before := ""
		for row, err := range rows {
			if now := id(row); err == nil && now < before {
				err = fmt.Errorf("the %s is not ordered by id: %q comes after %q", what, now, before)
			} else {
				before = now
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
