package avro

import "fmt"

const (
	notBegun uint8 = iota
	underWay
	encoded
)

// complete encodes the defaults of a record's fields.
func (n *node) complete() error {
	for i := range n.fields {
		f := &n.fields[i]
		if !f.has {
			continue
		}
		if m := f.encode(0); m != nil {
			return fmt.Errorf("the default of field %s of %s does not fit its type: %w", shown(f.name),
				shown(n.branch), m)
		}
	}
	return nil
}

// encode encodes the default of a field, for which it may need the defaults of others.
func (f *field) encode(nested int) *misfit {
	switch {
	case f.state == encoded:
		return nil
	case f.state == underWay || nested > maxDepth:
		return &misfit{why: "the default has no end, or is nested too deep"}
	}
	f.state = underWay
	w := writer{asDefault: true, nested: nested, most: maxDefault}
	w.Loose = true
	value, err := w.document(nil, f.node, f.raw)
	if m, bad := err.(*misfit); bad { //nolint:errorlint // it is never wrapped
		return m
	}
	f.raw, f.value, f.state = nil, value, encoded
	return nil
}
