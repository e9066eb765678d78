package inbox

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Event is a delivery of an event, as far as the ledger is concerned.
type Event struct {
	// ID is the event's own id, which every delivery of it carries: the record's id header. At most 512 bytes. Required.
	ID string
	// Source says where this delivery came from, "order.events/3@1042", for those who read the ledger. At most 512 bytes;
	// it doesn't identify anything. Optional.
	Source string
}

var (
	// ErrDuplicate means that the event was handled before, by this consumer: acknowledge it.
	ErrDuplicate = errors.New("inbox: the event was handled before")
	// ErrContended means that another delivery of the event is being handled right now: deliver this one again, later.
	ErrContended = errors.New("inbox: another delivery of the event is being handled")
	// ErrUnfinished means that the ledger has the event as PROCESSING though nobody is at work on it: whether it had an effect isn't
	// known. Forward leaves such rows on purpose; elsewhere a handler ended its transaction itself. A person decides: delete the row
	// to have the event handled again, or set it to COMPLETED.
	ErrUnfinished = errors.New("inbox: the event was begun before and it isn't known whether it had its effect")
	// ErrEventID means that the event can't be told from others: its id is empty, too long or no text.
	ErrEventID = errors.New("inbox: no usable event id")
)

func (e Event) validate() error {
	switch {
	case e.ID == "":
		return fmt.Errorf("%w: it is empty", ErrEventID)
	case len(e.ID) > maxEventID:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrEventID, maxEventID)
	case strings.ContainsRune(e.ID, 0) || !utf8.ValidString(e.ID):
		return fmt.Errorf("%w: it is no text that Postgres can store", ErrEventID)
	}
	return nil
}

// source is what the ledger keeps of Source: never a reason to refuse an event.
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
