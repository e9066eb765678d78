package router

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// field is a column of one relation; index is -1 where the table has no such column.
type field struct {
	index int
	name  string
	oid   uint32
}

// layout is where one relation keeps the parts of an event.
type layout struct {
	rel   *pgoutput.Relation
	table string
	width int

	id, aggregateType, aggregateID, eventType, payload field
	headers, timestamp                                 field

	keys                       []field // of a key that isn't the aggregate id
	topic                      []field // of the template's parts, beside them
	named                      []named // that become headers
	attribute                  []named // that become CloudEvents extensions
	version, traceID, schemaID field   // of the envelope and of the registry's frame

	resolved bool // the payload's type was looked up

	missing *RowError // set where a required column is missing: no row of this relation can be routed
}

// maxLayouts bounds the cache. A table's layout replaces its older one, so only partitions that come and go
// (without publish_via_partition_root each has an OID of its own) can ever reach it.
const maxLayouts = 1024

// layoutOf returns the layout of rel. The stream makes a new *Relation whenever the table's definition may have
// changed, before the next row, so the pointer says whether a cached layout still holds.
func (r *Router) layoutOf(rel *pgoutput.Relation) *layout {
	if r.last != nil && r.last.rel == rel {
		return r.last
	}
	l := r.layouts[rel.OID]
	if l == nil || l.rel != rel {
		l = r.newLayout(rel)
		if len(r.layouts) >= maxLayouts {
			clear(r.layouts)
		}
		r.layouts[rel.OID] = l
	}
	r.last = l
	return l
}

func (r *Router) newLayout(rel *pgoutput.Relation) *layout {
	c := r.cfg.Columns
	l := &layout{rel: rel, table: rel.Namespace + "." + rel.Name, width: len(rel.Columns)}
	l.require(r.needs)
	l.id, l.payload = l.find(c.ID), l.find(c.Payload)
	l.aggregateType, l.aggregateID, l.eventType = l.find(c.AggregateType), l.find(c.AggregateID), l.find(c.Type)
	l.headers, l.timestamp = l.find(c.Headers), l.find(c.Timestamp)
	for i := range r.topics.parts {
		l.topic = append(l.topic, l.partField(&r.topics.parts[i]))
	}
	for _, name := range r.cfg.KeyColumns {
		l.keys = append(l.keys, l.find(name))
	}
	for _, n := range r.columnHeaders {
		l.named = append(l.named, named{field: l.find(n.column), name: n.name})
	}
	for _, n := range r.extensions {
		l.attribute = append(l.attribute, named{field: l.find(n.column), name: n.name})
	}
	l.version, l.traceID = l.find(r.cfg.Envelope.VersionColumn), l.find(r.cfg.Envelope.TraceIDColumn)
	l.schemaID = l.find(r.cfg.Registry.SchemaIDColumn)
	return l
}

// find returns the named column; an empty name, as one the table doesn't have, gives none.
func (l *layout) find(name string) field {
	f := field{index: -1, name: name}
	if name == "" {
		return f
	}
	if f.index = l.rel.Column(name); f.index >= 0 {
		f.oid = l.rel.Columns[f.index].TypeOID
	}
	return f
}

// require makes all rows of the relation bad where it lacks a column that they cannot do without.
func (l *layout) require(needs []Need) {
	for i := range needs {
		n := &needs[i]
		if !n.Required || l.rel.Column(n.Column) >= 0 {
			continue
		}
		l.missing = &RowError{
			Reason: MissingColumn,
			Table:  l.table,
			Column: n.Column,
			Detail: "the table has no such column, or the publication doesn't send it; " + n.Purpose,
			Remedy: fmt.Sprintf("Set %s to the right column, or add the column to the table and to the publication's column list.", n.Key),
		}
		return
	}
}

// optional returns the text of a column that the table may not have, nil for NULL.
func (l *layout) optional(row pgoutput.Tuple, f field) ([]byte, *RowError) {
	if f.index < 0 {
		return nil, nil
	}
	return l.text(row, f)
}

// refuse makes a RowError for the row at hand. Errors are rare, so they may allocate.
func (l *layout) refuse(row pgoutput.Tuple, reason Reason, column, detail, remedy string) *RowError {
	e := &RowError{Reason: reason, Table: l.table, Column: column, Detail: detail, Remedy: remedy}
	l.identify(e, row)
	return e
}

func (l *layout) identify(e *RowError, row pgoutput.Tuple) {
	if i := l.id.index; i >= 0 && i < len(row) && row[i].Kind == pgoutput.Text {
		e.EventID = clipID(row[i].Data)
	}
}

// Type OIDs are fixed for built-in types (src/include/catalog/pg_type.dat).
const (
	oidBytea   = 17
	oidName    = 19
	oidText    = 25
	oidJSON    = 114
	oidBPChar  = 1042
	oidJSONB   = 3802
	oidVarchar = 1043
)

// empty stands for the empty string, which mustn't turn into a nil slice: nil means NULL in a Record.
var empty = []byte{}

// text returns a column's text: nil for NULL, never nil otherwise. The slice belongs to the row.
func (l *layout) text(row pgoutput.Tuple, f field) ([]byte, *RowError) {
	v := &row[f.index]
	switch v.Kind {
	case pgoutput.Text:
	case pgoutput.Null:
		return nil, nil
	case pgoutput.Binary:
		// The stream asks for text. Should a plugin send binary all the same, only these types have one form.
		switch f.oid {
		case oidBytea, oidName, oidText, oidJSON, oidBPChar, oidVarchar:
		default:
			return nil, l.refuse(row, BinaryValue, f.name, "the value came in binary format",
				"Start the stream without the option binary.")
		}
	case pgoutput.Unchanged:
		return nil, l.refuse(row, UnchangedValue, f.name, "the server left the value out, as for an update of another column",
			"Publish inserts only: ALTER PUBLICATION ... SET (publish = 'insert').")
	default:
		return nil, l.refuse(row, MalformedRow, f.name, fmt.Sprintf("the value is of the unknown kind %q", byte(v.Kind)),
			"Report this as a bug.")
	}
	if v.Data == nil {
		return empty, nil
	}
	return v.Data, nil
}
