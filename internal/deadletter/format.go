package deadletter

import (
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// HeaderRetried marks a record that was a dead letter; its value is the time of the retry.
const HeaderRetried = router.HeaderRetried

// Names of headers. Every record has id, type and position; all other names have the prefix.
const (
	prefix = "cdc-outbox-"

	headerID       = "id"
	headerType     = "type"
	headerPosition = "position"

	headerLetter     = prefix + "dead-letter" // kind of the letter; a record without it is not a letter
	headerReason     = prefix + "reason"
	headerDetail     = prefix + "detail"
	headerTable      = prefix + "table"
	headerSlot       = prefix + "slot"
	headerCommitTime = prefix + "commit-time"
	headerTopic      = prefix + "topic"     // the intended one, if it is known
	headerKey        = prefix + "key"       // present, absent or cut
	headerBytes      = prefix + "bytes"     // size of a record that is too large
	headerLimit      = prefix + "limit"     // and the limit of its topic
	headerTimestamp  = prefix + "timestamp" // of the intended record, in milliseconds
	headerCut        = prefix + "cut"       // parts that were cut or left out
	headerIDHash     = prefix + "id-sha256" // of an id that was cut, hexadecimal: the row can still be found by it
	headerPartition  = prefix + "partition" // of the intended record, if it is not the key's
	headerRow        = prefix + "row"       // the row but for its payload, JSON
	headerOriginal   = prefix + "header-"   // a header of the intended record

	headerRetry   = prefix + "retry"         // marker: begun, published, withdrawn or dismissed
	headerAttempt = prefix + "retry-attempt" // marker: which of several
)

// Kind is the content of a letter's value.
type Kind string

const (
	KindRow     Kind = "row"     // the payload column of a row that could not be routed
	KindRecord  Kind = "record"  // the value of a record that Kafka refused: of earlier versions
	KindPointer Kind = "pointer" // JSON that names the row
)

// Values of headerKey.
const (
	keyPresent = "present"
	keyAbsent  = "absent"
	keyCut     = "cut"
)

// Bounds, in bytes.
const (
	maxID      = 1 << 10 // of id and type
	maxText    = 1 << 10 // of detail, and of a topic's name
	maxTable   = 256
	maxKey     = 16 << 10 // longer keys are left out
	maxBareKey = 1 << 10  // in pointers
	maxColumn  = 16 << 10 // a longer column is cut out of the row
	maxRow     = 64 << 10 // of all columns together
)

// clip cuts a text at a character, so that it stays readable, and says so by an ellipsis.
func clip(text []byte, limit int) ([]byte, bool) {
	if len(text) <= limit {
		return text, false
	}
	const more = "…"
	cut := limit - len(more)
	for cut > limit-len(more)-utf8.UTFMax && cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return append(text[:cut:cut], more...), true
}

func clipString(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	out, _ := clip([]byte(text), limit)
	return string(out)
}

// find returns the first header of the name.
func find(headers []router.Header, name string) ([]byte, bool) {
	for i := range headers {
		if headers[i].Key == name {
			return headers[i].Value, true
		}
	}
	return nil, false
}

// EventID is the id among a record's headers, short enough for a line of the log; empty if there is none.
func EventID(headers []router.Header) string {
	for _, name := range []string{headerID, "ce_id"} {
		if v, ok := find(headers, name); ok {
			out, _ := clip(v, 64)
			return string(out)
		}
	}
	return ""
}

// EventType is the event's type among a record's headers, short enough for a line; empty if there is none.
func EventType(headers []router.Header) string {
	for _, name := range []string{headerType, "ce_type"} {
		if v, ok := find(headers, name); ok {
			out, _ := clip(v, 64)
			return string(out)
		}
	}
	return ""
}

// Position is the position among a record's headers, nil if there is none.
func Position(headers []router.Header) []byte {
	v, _ := find(headers, headerPosition)
	return v
}
