package outbox

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/jsonobject"
)

// maxHeaderNames bounds the interned names: rows with made-up names must not fill the memory.
const maxHeaderNames = 1024

// headers makes the record's headers. The names of the headers column are interned, as they are nearly always the
// same few.
type headers struct {
	list     []router.Header
	static   []router.Header
	reserved func(name string) bool // beside the router's own
	object   jsonobject.Object
	names    map[string]string
}

// fillHeaders fills the list for a row whose id and type texts are given.
func (h *headers) fillHeaders(l *rowPlan, row pgoutput.Tuple,
	id, eventType, position []byte,
) ([]router.Header, *router.RowError) {
	h.list = append(h.list[:0], router.Header{Key: router.HeaderID, Value: id})
	if l.eventType.Index >= 0 {
		h.list = append(h.list, router.Header{Key: router.HeaderType, Value: eventType})
	}
	if position != nil {
		h.list = append(h.list, router.Header{Key: router.HeaderPosition, Value: position})
	}
	h.list = append(h.list, h.static...)
	size := 0
	for i := range l.named {
		n := &l.named[i]
		value, rerr := l.Text(row, n.Field)
		if rerr != nil {
			return nil, rerr
		}
		if size += len(n.name) + len(value); size > router.MaxHeaderBytes {
			return nil, l.Refuse(row, router.HeadersTooLarge, n.name,
				fmt.Sprintf("the headers from columns have more than %d bytes", router.MaxHeaderBytes),
				"Correct what the application writes there, or router.column_headers.")
		}
		h.list = append(h.list, router.Header{Key: n.name, Value: value})
	}
	if l.headers.Index < 0 {
		return h.list, nil
	}
	text, rerr := l.Text(row, l.headers)
	if rerr != nil {
		return nil, rerr
	}
	if text == nil {
		return h.list, nil
	}
	if reason, err := h.members(text); err != nil {
		return nil, l.Refuse(row, reason, l.headers.Name, err.Error(),
			"Correct what the application writes there, or map router.columns.headers to another column.")
	}
	return h.list, nil
}

// members appends each member of the headers column's JSON object.
func (h *headers) members(text []byte) (router.Reason, error) {
	some, err := h.object.Reset(text)
	if err != nil {
		return router.BadHeaders, err
	}
	fixed := len(h.list)
	size := 0
	for some {
		m, ok, err := h.object.Next()
		if err != nil {
			return router.BadHeaders, err
		}
		if !ok {
			break
		}
		size += len(m.Name) + len(m.Value)
		if size > router.MaxHeaderBytes || len(h.list)-fixed == router.MaxHeaders {
			return router.HeadersTooLarge,
				fmt.Errorf("there are more than %d headers or %d bytes of them", router.MaxHeaders,
					router.MaxHeaderBytes)
		}
		name, reason, err := h.name(m.Name)
		if err != nil {
			return reason, err
		}
		h.list = append(h.list, router.Header{Key: name, Value: m.Value})
	}
	return "", nil
}

// name checks and interns a header's name.
func (h *headers) name(b []byte) (string, router.Reason, error) {
	if s, ok := h.names[string(b)]; ok {
		return s, "", nil
	}
	s := string(b)
	switch s {
	case router.HeaderID, router.HeaderType, router.HeaderPosition:
		return "", router.ReservedHeader, fmt.Errorf("the header name %q is reserved", s)
	}
	if h.reserved != nil && h.reserved(s) {
		return "", router.ReservedHeader, fmt.Errorf("the header name %q is reserved", s)
	}
	if err := router.CheckHeaderName(s); err != nil {
		return "", router.BadHeaders, err
	}
	if len(h.names) >= maxHeaderNames {
		clear(h.names)
	}
	h.names[s] = s
	return s, "", nil
}
