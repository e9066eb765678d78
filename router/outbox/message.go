package outbox

import (
	"slices"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/message"
)

// Message returns a logical message as a row, see Router.
func (r *Router) Message(l *pgoutput.LogicalMessage) (*pgoutput.Relation, pgoutput.Tuple, error) {
	if r.messages == nil {
		r.messages = message.New(r.messageColumns())
	}
	return r.messages.Row(l)
}

func (r *Router) messageColumns() message.Columns {
	c := r.cfg.Columns
	m := message.Columns{
		Parts: []message.Part{
			{Member: "id", Column: c.ID, OID: layout.OIDText},
			{Member: "aggregate_type", Column: c.AggregateType, OID: layout.OIDText},
			{Member: "aggregate_id", Column: c.AggregateID, OID: layout.OIDText},
			{Member: "type", Column: c.Type, OID: layout.OIDText},
			{Member: message.MemberPayload, Column: c.Payload, OID: layout.OIDJSON},
			{Member: "headers", Column: c.Headers, OID: layout.OIDJSON},
			{Member: "timestamp", Column: c.Timestamp, OID: layout.OIDTimestampTZ},
		},
		Payload: c.Payload, Timestamp: c.Timestamp,
	}
	for _, p := range r.topics.parts {
		if p.role == roleColumn {
			m.Others = append(m.Others, p.text)
		}
	}
	m.Others = append(m.Others, r.cfg.KeyColumns...)
	for _, n := range slices.Concat(r.columnHeaders, r.extensions) {
		m.Others = append(m.Others, n.column)
	}
	for _, p := range r.frames.subject {
		if p.role == roleColumn {
			m.Others = append(m.Others, p.text)
		}
	}
	g := &r.cfg.Registry
	m.Others = append(m.Others, r.cfg.Envelope.VersionColumn, r.cfg.Envelope.TraceIDColumn,
		g.SchemaIDColumn, g.VersionColumn, g.MessageIndexesColumn)
	return m
}
