package inbox

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Event identifies an event and one delivery of it.
type Event struct {
	// ID is the event's own id, the same in every delivery: the record's id header. At most 512 bytes. Required.
	ID string
	// Source records the origin of this delivery for readers of the ledger, for example "order.events/3@1042". It
	// does not identify the event. At most 512 bytes. Optional.
	Source string
}

var (
	// ErrDuplicate means that this consumer has handled the event before: acknowledge it.
	ErrDuplicate = errors.New("inbox: the event was handled before")
	// ErrContended means that another delivery of the event is being handled: deliver this one again later.
	ErrContended = errors.New("inbox: another delivery of the event is being handled")
	// ErrUnfinished means that the ledger has the event as PROCESSING although no handler is working on it, so it is
	// not known whether the event had its effect. Forward leaves such rows on purpose. Otherwise a handler has ended
	// its transaction itself. An operator has to decide: delete the row to have the event handled again, or set its
	// status to COMPLETED.
	ErrUnfinished = errors.New("inbox: the event was begun before, and it is not known whether it had its effect")
	// ErrLedger means that the ledger could not be asked or written, so the event is not the cause: the database is
	// away or read-only, the table or a privilege is missing, or no connection was free in time. If only the commit
	// failed, its result is unknown, otherwise nothing was written. Deliver the event again later. The error that wraps
	// it has the cause.
	ErrLedger = errors.New("inbox: the ledger cannot be used")
	// ErrEventID means that the event cannot be identified: its id is empty, too long or not valid text.
	ErrEventID = errors.New("inbox: no usable event id")
)

func (e Event) validate() error {
	switch {
	case e.ID == "":
		return fmt.Errorf("%w: it is empty", ErrEventID)
	case len(e.ID) > maxEventID:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrEventID, maxEventID)
	case strings.ContainsRune(e.ID, 0) || !utf8.ValidString(e.ID):
		return fmt.Errorf("%w: it is not text that Postgres can store", ErrEventID)
	}
	return nil
}

// source returns the part of Source that the ledger stores. It is never a reason to refuse an event.
func (e Event) source() any {
	s := strings.ToValidUTF8(strings.ReplaceAll(e.Source, "\x00", ""), "")
	if s == "" {
		return nil
	}
	if len(s) > maxSource {
		s = strings.ToValidUTF8(s[:maxSource], "")
	}
	return s
}
