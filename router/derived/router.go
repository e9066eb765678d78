// Package derived gives tables columns that they do not have: members of JSON columns, and constants. It wraps a
// preset's router, which finds them by name like the table's own. A column of the table with the same name comes first.
package derived

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// Config names the derived columns.
type Config struct {
	Members   map[string]Pointer
	Constants map[string]string
	ID        string // column with the event's id, which errors name
}

// New returns next, wrapped if there are any columns.
func New(cfg Config, next router.Router) router.Router {
	if len(cfg.Members)+len(cfg.Constants) == 0 {
		return next
	}
	return &derived{Router: next, cfg: cfg, tables: map[uint32]*table{}}
}

// derived overrides the methods that depend on the columns. It is used by one goroutine, as its router is.
type derived struct {
	router.Router
	cfg    Config
	tables map[uint32]*table // by relation OID
	last   *table
	row    pgoutput.Tuple
}

// table is a relation with the columns that it lacks.
type table struct {
	layout.Table
	wide  *pgoutput.Relation
	added []column // after the relation's own
}

// column is one that the relation lacks.
type column struct {
	constant []byte
	source   layout.Field // of a member
	pointer  Pointer
}

func (d *derived) tableOf(rel *pgoutput.Relation) *table {
	if d.last != nil && d.last.Rel == rel {
		return d.last
	}
	t := d.tables[rel.OID]
	if t == nil || t.Rel != rel {
		t = d.widen(rel)
		if len(d.tables) >= layout.MaxLayouts {
			clear(d.tables)
		}
		d.tables[rel.OID] = t
	}
	d.last = t
	return t
}

// widen adds each column that rel lacks. A member of a column that rel lacks as well is left out, so the wrapped
// router reports it.
func (d *derived) widen(rel *pgoutput.Relation) *table {
	wide := *rel
	wide.Columns = slices.Clone(rel.Columns)
	t := &table{Table: layout.Of(rel), wide: &wide}
	t.ID = t.Find(d.cfg.ID)
	add := func(name string, c column) {
		wide.Columns = append(wide.Columns, pgoutput.Column{Name: name, TypeOID: layout.OIDText, Modifier: -1})
		t.added = append(t.added, c)
	}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Members)) {
		p := d.cfg.Members[name]
		if source := t.Find(p.Column); rel.Column(name) < 0 && source.Index >= 0 {
			add(name, column{source: source, pointer: p})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Constants)) {
		if wide.Column(name) < 0 {
			add(name, column{constant: append([]byte{}, d.cfg.Constants[name]...)})
		}
	}
	return t
}

func (d *derived) Prepare(rel *pgoutput.Relation) error { return d.Router.Prepare(d.tableOf(rel).wide) }

func (d *derived) Fits(rel *pgoutput.Relation) bool { return d.Router.Fits(d.tableOf(rel).wide) }

func (d *derived) Route(rel *pgoutput.Relation, row pgoutput.Tuple, src router.Source) (*router.Record, error) {
	t := d.tableOf(rel)
	if len(row) != len(rel.Columns) {
		return d.Router.Route(t.wide, row, src) // which refuses it
	}
	d.row = append(d.row[:0], row...)
	for i := range t.added {
		v, err := t.value(row, &t.added[i])
		if err != nil {
			return nil, err
		}
		d.row = append(d.row, v)
	}
	return d.Router.Route(t.wide, d.row, src)
}

// value is the column's value in a row.
func (t *table) value(row pgoutput.Tuple, c *column) (pgoutput.Value, error) {
	if c.constant != nil {
		return pgoutput.Value{Kind: pgoutput.Text, Data: c.constant}, nil
	}
	text, rerr := t.Text(row, c.source)
	if rerr != nil {
		return pgoutput.Value{}, rerr
	}
	if text == nil {
		return pgoutput.Value{Kind: pgoutput.Null}, nil
	}
	if c.source.Oid == layout.OIDBytea && len(text) >= 2 && text[0] == '\\' && text[1] == 'x' {
		plain := make([]byte, hex.DecodedLen(len(text)-2))
		if _, err := hex.Decode(plain, text[2:]); err == nil {
			text = plain
		}
	}
	found, err := c.pointer.find(text)
	if err != nil {
		return pgoutput.Value{}, t.Refuse(row, router.BadValue, c.source.Name,
			fmt.Sprintf("%v, and router.json_columns reads a member of it", err),
			"Correct what the application writes there, or router.json_columns.")
	}
	if found == nil {
		return pgoutput.Value{Kind: pgoutput.Null}, nil
	}
	return pgoutput.Value{Kind: pgoutput.Text, Data: found}, nil
}

// Needs replaces needs of derived columns by needs of the columns that they come from. Their types do not matter.
func Needs(cfg Config, needs []router.Need) []router.Need {
	var out router.Needs
	for _, n := range needs {
		if p, ok := cfg.Members[n.Column]; ok {
			out.Add(router.Need{
				Key: "router.json_columns", Column: p.Column, Purpose: n.Purpose + ", in a member", Required: true,
			})
		} else if _, ok := cfg.Constants[n.Column]; !ok {
			out.Add(n)
		}
	}
	return out
}
