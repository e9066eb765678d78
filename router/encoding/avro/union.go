package avro

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// suits is how well a value suits a branch.
type suits uint8

const (
	no       suits = iota
	possible       // it can be converted
	natural        // it is a value of this type
)

// union encodes a value by the branch that it names, as Avro's own JSON does with {"long": 1}, otherwise by the first
// of the branches that suit it best. Branches are judged without looking into members of members.
func (w *writer) union(n *node, depth int) *misfit {
	if w.Peek() == 'n' && n.null >= 0 {
		w.dst = binary.AppendVarint(w.dst, int64(n.null))
		return w.value(n.branches[n.null], depth+1)
	}
	if w.Peek() == '{' {
		if done, m := w.named(n, depth); done || m != nil {
			return m
		}
	}
	best, at, rivals := no, -1, 0
	for i, b := range n.branches {
		s, m := w.suits(b)
		switch {
		case m != nil:
			return m
		case s > best:
			best, at, rivals = s, i, 0
		case s == best && s == possible:
			rivals++
		}
	}
	if at < 0 || rivals > 0 && w.Peek() == '{' {
		return w.expected(n)
	}
	w.dst = binary.AppendVarint(w.dst, int64(at))
	return w.value(n.branches[at], depth+1)
}

// named encodes an object whose only member has the name of a branch that its value suits.
func (w *writer) named(n *node, depth int) (bool, *misfit) {
	start := w.Pos
	at, b, m := w.only(n)
	if b < 0 || m != nil {
		w.Pos = start
		return false, m
	}
	w.Pos = at
	if s, m := w.suits(n.branches[b]); s == no || m != nil {
		w.Pos = start
		return false, m
	}
	w.dst = binary.AppendVarint(w.dst, int64(b))
	if m := w.value(n.branches[b], depth+1); m != nil {
		return true, m
	}
	if !w.Skip('}') {
		return true, notJSON()
	}
	return true, nil
}

// only finds the value of an object's only member, if that has the name of a branch; -1: it has not.
func (w *writer) only(n *node) (at, branch int, m *misfit) {
	w.Skip('{')
	if w.Peek() != '"' {
		return 0, -1, nil
	}
	name, m := w.name()
	if m != nil {
		return 0, -1, m
	}
	b, ok := n.byName[string(name)]
	if !ok {
		return 0, -1, nil
	}
	at = w.Pos
	if w.Value(0) != nil {
		return 0, -1, notJSON()
	}
	if m := w.again(w.Pos - at); m != nil {
		return 0, -1, m
	}
	if !w.Skip('}') {
		return 0, -1, nil
	}
	return at, b, nil
}

// suits judges the value at the cursor, which it leaves there.
func (w *writer) suits(n *node) (suits, *misfit) {
	switch c := w.Peek(); c {
	case 'n':
		return naturalIf(n.kind == null), nil
	case 't', 'f':
		return naturalIf(n.kind == boolean), nil
	case '[':
		return naturalIf(n.kind == array), nil
	case '{':
		if n.kind == record {
			return w.suitsRecord(n)
		}
		return naturalIf(n.kind == mapping), nil
	case '"':
		return w.suitsString(n)
	}
	start := w.Pos
	defer func() { w.Pos = start }()
	if w.Value(0) != nil {
		return no, notJSON()
	}
	return w.suitsNumber(n, w.Src[start:w.Pos]), nil
}

func naturalIf(it bool) suits {
	if it {
		return natural
	}
	return no
}

func (w *writer) suitsNumber(n *node, token []byte) suits {
	integral := !bytes.ContainsAny(token, ".eE")
	switch {
	case n.kind == float || n.kind == double:
		if integral {
			return possible
		}
		return natural
	case n.kind == integer || n.kind == long:
		if _, ok := w.int64(token, n.kind == integer); !ok {
			return no
		}
		if integral {
			return natural
		}
		return possible
	case n.logical == decimal:
		_, _, ok := w.scaled(token, n.scale, n.precision)
		return naturalIf(ok)
	}
	return no
}

func (w *writer) suitsString(n *node) (suits, *misfit) {
	start := w.Pos
	defer func() { w.Pos = start }()
	s, m := w.str(n)
	if m != nil {
		return no, m
	}
	ok := false
	switch {
	case n.kind == enum:
		_, ok = n.byName[string(s)]
		return naturalIf(ok), nil
	case n.kind == text:
		return naturalIf(n.logical != uuid || isUUID(s)), nil
	case n.logical == uuid:
		return naturalIf(isUUID(s)), nil
	case n.unit != 0 || n.logical == date:
		if _, ok = w.temporal(n, s); ok {
			return natural, nil
		}
	case n.logical == decimal && !w.asDefault:
		_, _, ok = w.scaled(s, n.scale, n.precision)
	case n.kind == octets:
		ok = true
	case n.kind == fixed:
		w.buf, ok = latin1(w.buf[:0], s)
		ok = ok && len(w.buf) == n.size
	case n.kind == integer || n.kind == long:
		_, ok = w.int64(s, n.kind == integer)
	case n.kind == float || n.kind == double:
		_, ok = special(s)
	}
	if ok {
		return possible, nil
	}
	return no, nil
}

// suitsRecord reports whether an object has the members of a record: none that it does not know, and each that it
// needs. Another object could be meant for it.
func (w *writer) suitsRecord(n *node) (suits, *misfit) {
	start, base := w.Pos, len(w.at)
	defer func() { w.Pos, w.at = start, w.at[:base] }()
	w.at = slices.Grow(w.at, len(n.fields))[:base+len(n.fields)]
	clear(w.at[base:])
	w.Skip('{')
	for more := !w.Skip('}'); more; {
		name, m := w.name()
		if m != nil {
			return no, m
		}
		i, known := n.byName[string(name)]
		if !known {
			return possible, nil
		}
		w.at[base+i] = 1
		at := w.Pos
		if w.Value(0) != nil {
			return no, notJSON()
		}
		if m := w.again(w.Pos - at); m != nil {
			return no, m
		}
		if more = w.Skip(','); !more && !w.Skip('}') {
			return no, notJSON()
		}
	}
	for i := range n.fields {
		if w.at[base+i] == 0 && !n.fields[i].optional() {
			return possible, nil
		}
	}
	return natural, nil
}
