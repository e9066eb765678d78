package pgoutput

import "encoding/binary"

// insert reads an Insert message: relation, 'N', new row.
func (d *Decoder) insert(m *Message) error {
	rel, err := d.knownRelation()
	if rel == nil {
		return d.passedOver(m, err)
	}
	m.Kind = KindInsert
	m.Relation = rel
	return d.newRow(m, rel)
}

// update reads an Update message: relation, the old key 'K' or the old row 'O' if the replica identity asks for
// it, then 'N' and the new row. The old values are checked and dropped.
func (d *Decoder) update(m *Message) error {
	rel, err := d.knownRelation()
	if rel == nil {
		return d.passedOver(m, err)
	}
	m.Kind = KindUpdate
	m.Relation = rel
	if err := d.need(1, "tuple kind"); err != nil {
		return err
	}
	if k := d.in[0]; k == 'K' || k == 'O' {
		d.skip(1)
		if err := d.row(rel); err != nil {
			return err
		}
	}
	return d.newRow(m, rel)
}

// delete reads a Delete message: relation, then the old key 'K' or the old row 'O', which is checked and dropped.
func (d *Decoder) delete(m *Message) error {
	rel, err := d.knownRelation()
	if rel == nil {
		return d.passedOver(m, err)
	}
	m.Kind = KindDelete
	m.Relation = rel
	if err := d.need(1, "tuple kind"); err != nil {
		return err
	}
	if k := d.in[0]; k != 'K' && k != 'O' {
		return d.fail("tuple kind %q, want 'K' or 'O'", k)
	}
	d.skip(1)
	return d.row(rel)
}

func (d *Decoder) newRow(m *Message, rel *Relation) error {
	if err := d.need(1, "tuple kind"); err != nil {
		return err
	}
	if k := d.in[0]; k != 'N' {
		return d.fail("tuple kind %q, want 'N'", k)
	}
	d.skip(1)
	if err := d.row(rel); err != nil {
		return err
	}
	m.Tuple = d.tuple
	return nil
}

// row reads a TupleData into d.tuple. A row must have as many values as its Relation has columns: values are found
// by the column's index, and one that is off would put a payload in a key's place.
func (d *Decoder) row(rel *Relation) error {
	if err := d.need(2, "column count"); err != nil {
		return err
	}
	n := int(d.uint16())
	if n != len(rel.Columns) {
		return d.fail("%d values for the %d columns of %q.%q", n, len(rel.Columns), rel.Namespace, rel.Name)
	}
	if cap(d.tuple) < n {
		d.tuple = make(Tuple, n)
	}
	d.tuple = d.tuple[:n]
	in := d.in
	for i := range d.tuple {
		v := &d.tuple[i]
		if text, after, ok := cutText(in); ok {
			*v, in = Value{Kind: Text, Data: text}, after
			continue
		}
		d.in = in
		if err := d.value(v); err != nil {
			return err
		}
		in = d.in
	}
	d.in = in
	return nil
}

// cutText takes a text value, which nearly every value is, off the front; it leaves any other value, or a broken one,
// to value. It is inlined: a row has about eight of them.
func cutText(in []byte) (text, after []byte, ok bool) {
	if len(in) < 5 || ValueKind(in[0]) != Text {
		return nil, nil, false
	}
	n := uint64(binary.BigEndian.Uint32(in[1:]))
	if in = in[5:]; n > uint64(len(in)) {
		return nil, nil, false
	}
	return in[:n:n], in[n:], true
}

func (d *Decoder) value(v *Value) error {
	if err := d.need(1, "value kind"); err != nil {
		return err
	}
	switch k := ValueKind(d.in[0]); k {
	case Null, Unchanged:
		d.skip(1)
		*v = Value{Kind: k}
		return nil
	case Text, Binary:
		d.skip(1)
		if err := d.need(4, "value length"); err != nil {
			return err
		}
		data, err := d.bytes(d.uint32(), "value")
		*v = Value{Kind: k, Data: data}
		return err
	case Cut:
		if d.Cut {
			d.skip(1)
			if err := d.need(4, "value length"); err != nil {
				return err
			}
			*v = Value{Kind: k, Size: d.uint32()}
			return nil
		}
	}
	return d.fail("value kind %q", d.in[0])
}
