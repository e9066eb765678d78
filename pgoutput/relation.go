package pgoutput

// relation reads a Relation message: the table as of the rows that follow. Postgres sends one before the first row
// of a table on a connection and again before the first row after a change to the table (ALTER TABLE, a change to
// the publication), so the newest value by OID is the one a row is to be read with.
func (d *Decoder) relation(m *Message) error {
	if err := d.need(4, "relation OID"); err != nil {
		return err
	}
	rel := &Relation{OID: d.uint32()}
	// All names share one copy of the message: the next Receive overwrites the read buffer, a Relation stays.
	names := string(d.in)
	name := func(what string) (string, error) {
		at := len(names) - len(d.in)
		b, err := d.cstring(what)
		return names[at : at+len(b)], err
	}
	var err error
	if rel.Namespace, err = name("namespace"); err != nil { // empty for pg_catalog
		return err
	}
	if rel.Name, err = name("relation name"); err != nil {
		return err
	}
	if err := d.need(3, "relation header"); err != nil {
		return err
	}
	d.skip(1) // replica identity setting; each column's flags show whether it is part of it
	n := int(d.uint16())
	const leastColumn = 1 + 1 + 4 + 4 // flags, NUL of an empty name, type, modifier
	if err := d.need(n*leastColumn, "column list"); err != nil {
		return err
	}
	rel.Columns = make([]Column, n)
	for i := range rel.Columns {
		c := &rel.Columns[i]
		if err := d.need(leastColumn, "column"); err != nil {
			return err
		}
		c.Key = d.byte()&1 != 0
		if c.Name, err = name("column name"); err != nil {
			return err
		}
		if err := d.need(8, "column type"); err != nil {
			return err
		}
		c.TypeOID = d.uint32()
		c.Modifier = int32(d.uint32())
	}
	m.Kind = KindRelation
	m.Relation = rel
	d.rememberRelation(rel)
	return nil
}

// rememberRelation remembers a relation for its rows. Postgres does not send it again on this connection until the
// table changes, so nothing may be evicted; but of a table whose rows are passed over no more is needed than that they
// are. A publication FOR ALL TABLES of a database in which tables come and go sends relations without end.
func (d *Decoder) rememberRelation(rel *Relation) {
	if d.PassOver != nil && d.PassOver(rel) {
		delete(d.relations, rel.OID)
		if d.passed == nil {
			d.passed = make(map[uint32]struct{})
		}
		d.passed[rel.OID] = struct{}{}
		return
	}
	if d.relations == nil {
		d.relations = make(map[uint32]*Relation)
	}
	delete(d.passed, rel.OID)
	d.relations[rel.OID] = rel
}

// passedOver ends the decoding of a row without a relation: of a table that is passed over, unless err says more. The
// rest of the message is not read.
func (d *Decoder) passedOver(m *Message, err error) error {
	if err != nil {
		return err
	}
	m.Kind = KindPassedOver
	d.in = nil
	return nil
}

// knownRelation reads a relation's OID and returns the newest Relation sent for it, nil for a table that is passed
// over.
func (d *Decoder) knownRelation() (*Relation, error) {
	if err := d.need(4, "relation OID"); err != nil {
		return nil, err
	}
	oid := d.uint32()
	rel := d.relations[oid]
	if rel == nil {
		if _, passed := d.passed[oid]; passed {
			return nil, nil
		}
		return nil, d.fail("a row of relation %d, which no Relation message has described", oid)
	}
	return rel, nil
}
