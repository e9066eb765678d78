package avro

import (
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/router/encoding/internal/path"
)

// misfit is why a document does not fit. Its path is built from the inside.
type misfit struct {
	path string
	why  string
}

// Error is the path of the member and the cause.
func (m *misfit) Error() string { return "$" + m.path + ": " + m.why }

func (m *misfit) inField(name string) *misfit {
	m.path = path.Step(name) + m.path
	return m
}

func (m *misfit) inItem(i int) *misfit {
	m.path = "[" + strconv.Itoa(i) + "]" + m.path
	return m
}

// inMap leaves the key out: it is a value of the document.
func (m *misfit) inMap() *misfit {
	m.path = ".*" + m.path
	return m
}

// found is the kind of the value that begins with c.
func found(c byte) string {
	switch c {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case 0:
		return "nothing"
	}
	return "a number"
}

// expected is the misfit of a value of the wrong kind.
func (w *writer) expected(n *node) *misfit {
	return &misfit{why: "expected " + n.want + ", found " + found(w.Peek())}
}

// refused is the misfit of a value of the right kind.
func refused(n *node, why string) *misfit {
	return &misfit{why: "expected " + n.want + ", found " + why}
}

func notJSON() *misfit { return &misfit{why: "the text is not JSON, or is nested too deep"} }
