package router

import (
	"errors"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxHeaders is how many members the headers column may hold.
	MaxHeaders = 256
	// MaxHeaderBytes bounds the names and values of the headers column together. Headers count towards the size
	// a topic allows for a record, and every consumer pays for them.
	MaxHeaderBytes = 64 << 10
)

// The names of the router's own headers.
const (
	HeaderID       = "id"
	HeaderType     = "type"
	HeaderPosition = "position"

	// HeaderReplayed marks a record that replay or repair published from the table; its value is the run's id.
	HeaderReplayed = "replayed"

	// HeaderRetried marks a record that was a dead letter; its value is the time of the retry.
	HeaderRetried = "retried"

	// HeaderSnapshot marks a record of a row that was published before the stream began.
	HeaderSnapshot = "snapshot"

	// HeaderOriginalTimestamp is on records whose own timestamp could make their topic delete or refuse them. It holds
	// that timestamp in milliseconds; the record has the time at which it was sent. See docs/consuming-events.md.
	HeaderOriginalTimestamp = "cdc-outbox-original-timestamp"
)

// OutOfTurn reports whether a record was written later than its row's place in the log, so that its time and its
// position say nothing about the records before it.
func OutOfTurn(headers []Header) bool {
	return slices.ContainsFunc(headers, func(h Header) bool {
		return h.Key == HeaderReplayed || h.Key == HeaderRetried || h.Key == HeaderSnapshot
	})
}

// CheckHeaderName reports why a string cannot be the name of a header.
func CheckHeaderName(s string) error {
	if s == "" {
		return errors.New("a header has an empty name")
	}
	if !utf8.ValidString(s) {
		return errors.New("a header's name is not UTF-8")
	}
	for _, r := range s {
		// Names end up in logs, HTTP bridges and terminals, in which control characters are an attack.
		if unicode.IsControl(r) {
			return fmt.Errorf("a header's name holds the control character %U", r)
		}
	}
	return nil
}
