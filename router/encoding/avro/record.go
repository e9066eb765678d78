package avro

import (
	"encoding/binary"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/router/encoding/internal/path"
)

// record encodes an object. Members come in any order: one that comes early is passed over, and read when its field is
// due. Of two members with the same name the last counts, unless the first is written already.
func (w *writer) record(n *node, depth int) *misfit {
	if w.Peek() != '{' {
		return w.expected(n)
	}
	base, due := len(w.at), 0
	w.at = slices.Grow(w.at, len(n.fields))[:base+len(n.fields)]
	for i := range n.fields {
		w.at[base+i] = -1
	}
	w.Skip('{')
	for more := !w.Skip('}'); more; {
		name, m := w.name()
		if m != nil {
			return m
		}
		i, known := n.byName[string(name)]
		if !known {
			return &misfit{path: path.Step(string(name)), why: n.want + " has no such field"}
		}
		if i == due {
			if m := w.value(n.fields[i].node, depth+1); m != nil {
				return m.inField(n.fields[i].name)
			}
			due++
		} else {
			w.at[base+i] = w.Pos
			if w.Value(depth) != nil {
				return notJSON()
			}
		}
		if more = w.Skip(','); !more && !w.Skip('}') {
			return notJSON()
		}
	}
	end := w.Pos
	for i := due; i < len(n.fields); i++ {
		f := &n.fields[i]
		if w.Pos = w.at[base+i]; w.Pos < 0 {
			if m := w.absent(f); m != nil {
				return m
			}
		} else if m := w.value(f.node, depth+1); m != nil {
			return m.inField(f.name)
		}
	}
	w.Pos, w.at = end, w.at[:base]
	return nil
}

// absent encodes a field without a member.
func (w *writer) absent(f *field) *misfit {
	switch {
	case f.has:
		if w.asDefault {
			if m := f.encode(w.nested + 1); m != nil {
				return m
			}
		}
		w.dst = append(w.dst, f.value...)
		return w.bounded()
	case f.node.kind == union && f.node.null >= 0:
		w.dst = binary.AppendVarint(w.dst, int64(f.node.null))
	case f.node.kind == null:
	default:
		return &misfit{path: path.Step(f.name), why: "expected " + f.node.want + ", and there is no such member"}
	}
	return nil
}

// optional reports whether the field needs no member.
func (f *field) optional() bool {
	return f.has || f.node.kind == union && f.node.null >= 0 || f.node.kind == null
}
