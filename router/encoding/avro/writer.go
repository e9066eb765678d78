package avro

import (
	"cmp"
	"encoding/binary"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/router/internal/jsonobject"
)

// writer encodes one document.
type writer struct {
	jsonobject.Object

	dst   []byte
	start int // of the document in dst
	at    []int
	buf   []byte // of digits and times
	most  int    // bytes of the encoded document; 0: maxEncoded
	steps int    // bytes that were read more than once

	asDefault bool // strings are bytes also for decimals, as in a schema's defaults
	nested    int  // defaults within defaults
}

// document appends a document. The writer keeps neither argument.
func (w *writer) document(dst []byte, n *node, document []byte) ([]byte, error) {
	w.dst, w.start, w.at, w.steps = dst, len(dst), w.at[:0], 0
	w.Begin(document)
	m := w.value(n, 0)
	if m == nil && !w.AtEnd() {
		m = notJSON()
	}
	out := w.dst
	w.dst, w.Src = nil, nil
	const kept = 64 << 10
	if cap(w.Scratch) > kept {
		w.Scratch = nil
	}
	if cap(w.at) > kept {
		w.at = nil
	}
	if cap(w.buf) > kept {
		w.buf = nil
	}
	if m != nil {
		return dst, m
	}
	return out, nil
}

// again counts bytes that are read once more. A document and a schema that fit badly together may not take for ever.
func (w *writer) again(n int) *misfit {
	if w.steps += n; w.steps > 1<<20+500*len(w.Src) {
		return &misfit{why: "the branches of unions take too many steps to choose"}
	}
	return nil
}

// bounded refuses what has become too large: a few bytes can stand for a large default.
func (w *writer) bounded() *misfit {
	if len(w.dst)-w.start > cmp.Or(w.most, maxEncoded) {
		return &misfit{why: "the encoded payload is too large"}
	}
	return nil
}

// value encodes the value at the cursor.
func (w *writer) value(n *node, depth int) *misfit {
	if depth > maxDepth {
		return notJSON()
	}
	if m := w.bounded(); m != nil {
		return m
	}
	switch n.kind {
	case null:
		if !w.Word("null") {
			return w.expected(n)
		}
		return nil
	case boolean:
		return w.boolean(n)
	case integer, long:
		return w.whole(n)
	case float, double:
		return w.floating(n)
	case octets, fixed:
		return w.bytes(n)
	case text, enum:
		return w.text(n)
	case record:
		return w.record(n, depth)
	case array:
		return w.array(n, depth)
	case mapping:
		return w.mapping(n, depth)
	}
	return w.union(n, depth)
}

func (w *writer) boolean(n *node) *misfit {
	switch {
	case w.Word("true"):
		w.dst = append(w.dst, 1)
	case w.Word("false"):
		w.dst = append(w.dst, 0)
	default:
		return w.expected(n)
	}
	return nil
}

// str reads the string at the cursor. It lives until the next one is read.
func (w *writer) str(n *node) ([]byte, *misfit) {
	if w.Peek() != '"' {
		return nil, w.expected(n)
	}
	w.Scratch = w.Scratch[:0]
	s, err := w.Text()
	if err != nil {
		return nil, notJSON()
	}
	return s, nil
}

func (w *writer) text(n *node) *misfit {
	s, m := w.str(n)
	if m != nil {
		return m
	}
	if n.kind == enum {
		i, ok := n.byName[string(s)]
		if !ok {
			return refused(n, "a string that is none of its symbols")
		}
		w.dst = binary.AppendVarint(w.dst, int64(i))
		return nil
	}
	if n.logical == uuid && !isUUID(s) {
		return refused(n, "a string of another form")
	}
	return w.chars(n, s)
}

// chars appends a string.
func (w *writer) chars(n *node, s []byte) *misfit {
	if !utf8.Valid(s) {
		return refused(n, "a string that is not UTF-8")
	}
	w.dst = binary.AppendVarint(w.dst, int64(len(s)))
	w.dst = append(w.dst, s...)
	return nil
}

func (w *writer) array(n *node, depth int) *misfit {
	if w.Peek() != '[' {
		return w.expected(n)
	}
	w.Skip('[')
	if w.Skip(']') {
		w.dst = append(w.dst, 0)
		return nil
	}
	mark := w.block()
	for count := 0; ; {
		if m := w.value(n.items, depth+1); m != nil {
			return m.inItem(count)
		}
		count++
		if w.Skip(',') {
			continue
		}
		if !w.Skip(']') {
			return notJSON()
		}
		w.endBlock(mark, count)
		return nil
	}
}

// block leaves room for the count of the items that follow, which is known at their end.
func (w *writer) block() (mark int) {
	w.dst = append(w.dst, 0)
	return len(w.dst)
}

// endBlock writes the count in front of the items, and the end of the blocks after them.
func (w *writer) endBlock(mark, count int) {
	var head [binary.MaxVarintLen64]byte
	n := binary.PutVarint(head[:], int64(count))
	if n > 1 { // more than 63 items
		w.dst = append(w.dst, head[:n-1]...)
		copy(w.dst[mark+n-1:], w.dst[mark:len(w.dst)-(n-1)])
	}
	copy(w.dst[mark-1:], head[:n])
	w.dst = append(w.dst, 0)
}

func (w *writer) mapping(n *node, depth int) *misfit {
	if w.Peek() != '{' {
		return w.expected(n)
	}
	w.Skip('{')
	if w.Skip('}') {
		w.dst = append(w.dst, 0)
		return nil
	}
	mark := w.block()
	for count := 1; ; count++ {
		key, m := w.name()
		if m == nil {
			m = w.chars(n, key)
		}
		if m == nil {
			m = w.value(n.items, depth+1)
		}
		if m != nil {
			return m.inMap()
		}
		if w.Skip(',') {
			continue
		}
		if !w.Skip('}') {
			return notJSON()
		}
		w.endBlock(mark, count)
		return nil
	}
}

// name reads the name of a member, and the colon.
func (w *writer) name() ([]byte, *misfit) {
	w.Scratch = w.Scratch[:0]
	name, err := w.Text()
	if err != nil || !w.Skip(':') {
		return nil, notJSON()
	}
	return name, nil
}
