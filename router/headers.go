package router

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
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
	headerID       = "id"
	headerType     = "type"
	headerPosition = "position"
)

// maxHeaderNames bounds the interned names: rows with made-up names mustn't fill the memory.
const maxHeaderNames = 1024

// headers makes the record's headers. The names of the headers column are interned, as they are nearly always the
// same few.
type headers struct {
	list     []Header
	static   []Header
	reserved func(name string) bool // beside the router's own
	object   jsonObject
	names    map[string]string
}

// of fills the list for a row whose id and type texts are given.
func (h *headers) of(l *layout, row pgoutput.Tuple, id, eventType, position []byte) ([]Header, *RowError) {
	h.list = append(h.list[:0],
		Header{Key: headerID, Value: id},
		Header{Key: headerType, Value: eventType},
	)
	if position != nil {
		h.list = append(h.list, Header{Key: headerPosition, Value: position})
	}
	h.list = append(h.list, h.static...)
	size := 0
	for i := range l.named {
		n := &l.named[i]
		value, rerr := l.text(row, n.field)
		if rerr != nil {
			return nil, rerr
		}
		if size += len(n.name) + len(value); size > MaxHeaderBytes {
			return nil, l.refuse(row, HeadersTooLarge, n.name, fmt.Sprintf("the headers from columns have more than %d bytes", MaxHeaderBytes),
				"Correct what the application writes there, or router.column_headers.")
		}
		h.list = append(h.list, Header{Key: n.name, Value: value})
	}
	if l.headers.index < 0 {
		return h.list, nil
	}
	text, rerr := l.text(row, l.headers)
	if rerr != nil {
		return nil, rerr
	}
	if text == nil {
		return h.list, nil
	}
	if reason, err := h.members(text); err != nil {
		return nil, l.refuse(row, reason, l.headers.name, err.Error(),
			"Correct what the application writes there, or map router.columns.headers to another column.")
	}
	return h.list, nil
}

// members appends each member of the headers column's JSON object.
func (h *headers) members(text []byte) (Reason, error) {
	some, err := h.object.reset(text)
	if err != nil {
		return BadHeaders, err
	}
	fixed := len(h.list)
	size := 0
	for some {
		m, ok, err := h.object.next()
		if err != nil {
			return BadHeaders, err
		}
		if !ok {
			break
		}
		size += len(m.name) + len(m.value)
		if size > MaxHeaderBytes || len(h.list)-fixed == MaxHeaders {
			return HeadersTooLarge, fmt.Errorf("there are more than %d headers or %d bytes of them", MaxHeaders, MaxHeaderBytes)
		}
		name, reason, err := h.name(m.name)
		if err != nil {
			return reason, err
		}
		h.list = append(h.list, Header{Key: name, Value: m.value})
	}
	return "", nil
}

// name checks and interns a header's name.
func (h *headers) name(b []byte) (string, Reason, error) {
	if s, ok := h.names[string(b)]; ok {
		return s, "", nil
	}
	s := string(b)
	switch s {
	case headerID, headerType, headerPosition:
		return "", ReservedHeader, fmt.Errorf("the header name %q is reserved", s)
	}
	if h.reserved != nil && h.reserved(s) {
		return "", ReservedHeader, fmt.Errorf("the header name %q is reserved", s)
	}
	if err := checkHeaderName(s); err != nil {
		return "", BadHeaders, err
	}
	if len(h.names) >= maxHeaderNames {
		clear(h.names)
	}
	h.names[s] = s
	return s, "", nil
}

func checkHeaderName(s string) error {
	if s == "" {
		return errors.New("a header has an empty name")
	}
	if !utf8.ValidString(s) {
		return errors.New("a header's name isn't UTF-8")
	}
	for _, r := range s {
		// Names end up in logs, HTTP bridges and terminals, where control characters are an attack.
		if unicode.IsControl(r) {
			return fmt.Errorf("a header's name holds the control character %U", r)
		}
	}
	return nil
}
