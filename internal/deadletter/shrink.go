package deadletter

import (
	"encoding/json"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// pointer is the value of a letter of KindPointer.
type pointer struct {
	Table    string  `json:"table"`
	ID       *string `json:"id"`
	Position string  `json:"position"`
	Reason   string  `json:"reason"`
	Topic    string  `json:"topic,omitempty"`
	Bytes    int     `json:"bytes,omitempty"`
	Limit    int     `json:"limit,omitempty"`
}

// Shrink returns a letter of a few kilobytes that names the row instead of containing it, for a dead-letter topic that
// refuses the whole letter. It reports false if rec is a pointer already, or not a letter.
func Shrink(rec *router.Record) (*router.Record, bool) {
	s, err := Summarize(&Record{Timestamp: rec.Timestamp, Headers: rec.Headers})
	if err != nil || s.Kind == KindPointer {
		return nil, false
	}
	l := &letter{
		out: &router.Record{Topic: rec.Topic, Partition: -1, Timestamp: rec.Timestamp},
		cut: s.Cut,
	}
	p := pointer{Table: s.Table, Position: s.Position, Reason: s.Reason, Topic: s.Topic, Bytes: s.Bytes, Limit: s.Limit}
	for i := range rec.Headers {
		h := rec.Headers[i]
		switch {
		case h.Key == headerRow || h.Key == headerCut || strings.HasPrefix(h.Key, headerOriginal):
			continue
		case h.Key == headerLetter:
			h.Value = []byte(KindPointer)
		case h.Key == headerID && h.Value != nil:
			id := string(h.Value)
			p.ID = &id
		case h.Key == headerKey && len(rec.Key) > maxBareKey:
			h.Value, l.cut = []byte(keyCut), append(l.cut, "key")
		}
		l.out.Headers = append(l.out.Headers, h)
	}
	if len(rec.Key) <= maxBareKey {
		l.out.Key = rec.Key
	}
	l.out.Value, _ = json.Marshal(p) // strings and numbers: cannot fail
	return l.record(), true
}
