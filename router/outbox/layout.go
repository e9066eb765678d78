package outbox

import (
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// rowPlan maps the parts of an event to the columns of one relation.
type rowPlan struct {
	layout.Table

	aggregateType, aggregateID, eventType, payload layout.Field
	headers                                        layout.Field

	keys                []layout.Field // of a key that is not the aggregate id
	topic               []layout.Field // of the template's parts, beside them
	named               []named        // that become headers
	attribute           []named        // that become CloudEvents extensions
	version, traceID    layout.Field   // of the envelope
	schemaID, schemaVer layout.Field   // of the registry's frame
	message             layout.Field   // of the indexes of a Protobuf message
	subject             []layout.Field // of its template's parts, beside them

	resolved bool // the payload's type was looked up
}

// layoutOf returns the layout of rel. The stream makes a new *Relation whenever the table's definition may have
// changed, before the next row, so a cached layout is valid exactly as long as the pointer is the same.
func (r *Router) layoutOf(rel *pgoutput.Relation) *rowPlan {
	if r.last != nil && r.last.Rel == rel {
		return r.last
	}
	l := r.layouts[rel.OID]
	if l == nil || l.Rel != rel {
		l = r.newLayout(rel)
		if len(r.layouts) >= layout.MaxLayouts {
			clear(r.layouts)
		}
		r.layouts[rel.OID] = l
	}
	r.last = l
	return l
}

// units are the values of router.timestamp_unit, as counts per second.
var units = map[string]int64{"s": 1, "ms": 1000, "us": 1_000_000}

func (r *Router) newLayout(rel *pgoutput.Relation) *rowPlan {
	c := r.cfg.Columns
	l := &rowPlan{Table: layout.Of(rel)}
	l.Require(r.needs)
	l.ID, l.payload = l.Find(c.ID), l.Find(c.Payload)
	l.aggregateType, l.aggregateID, l.eventType = l.Find(c.AggregateType), l.Find(c.AggregateID), l.Find(c.Type)
	l.headers, l.Timestamp = l.Find(c.Headers), l.Find(c.Timestamp)
	if l.Timestamp.Oid != layout.OIDTimestampTZ { // as that of a logical message is
		l.PerSecond = units[r.cfg.TimestampUnit]
	}
	for i := range r.topics.parts {
		l.topic = append(l.topic, l.partField(&r.topics.parts[i]))
	}
	for _, name := range r.cfg.KeyColumns {
		l.keys = append(l.keys, l.Find(name))
	}
	for _, n := range r.columnHeaders {
		l.named = append(l.named, named{Field: l.Find(n.column), name: n.name})
	}
	for _, n := range r.extensions {
		l.attribute = append(l.attribute, named{Field: l.Find(n.column), name: n.name})
	}
	l.version, l.traceID = l.Find(r.cfg.Envelope.VersionColumn), l.Find(r.cfg.Envelope.TraceIDColumn)
	g := &r.cfg.Registry
	l.schemaID, l.schemaVer = l.Find(g.SchemaIDColumn), l.Find(g.VersionColumn)
	l.message = l.Find(g.MessageIndexesColumn)
	for i := range r.frames.subject {
		l.subject = append(l.subject, l.partField(&r.frames.subject[i]))
	}
	return l
}
