package debezium

import (
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// value makes the record's value: the payload, or a struct of it and other columns.
func (d *Router) value(p *plan, row pgoutput.Tuple, route []byte) ([]byte, *router.RowError) {
	if d.cfg.TombstoneOnEmpty {
		text, err := p.Text(row, p.payload.Field)
		if err != nil {
			return nil, err
		}
		if p.payload.convert.Schema.Type != connect.Bytes && trimmedEmpty(text) || text == nil {
			return nil, nil
		}
	}
	if !d.envelope && !d.cfg.Expand.Enabled {
		return d.encode(p, row, &p.payload, &p.valueOut)
	}
	payload, err := p.read(row, &p.payload)
	if err != nil {
		return nil, err
	}
	schema := p.payload.schema
	if d.cfg.Expand.Enabled {
		var cerr error
		if payload, schema, cerr = d.expand(p, payload); cerr != nil {
			return nil, p.badValue(row, &p.payload, cerr)
		}
	}
	if d.envelope {
		return d.wrap(p, row, route, payload, schema)
	}
	out := p.valueOut
	if schema != p.payload.schema && out.kind == converterJSONSchema {
		out.prefix = schemaPrefix(schema)
	}
	return d.write(p, row, &p.payload, &out, &payload)
}

// trimmedEmpty is String.trim().isEmpty(): all characters up to the blank count as white space.
func trimmedEmpty(s []byte) bool {
	for _, c := range s {
		if c > ' ' {
			return false
		}
	}
	return true
}

// envelopeKey holds all that an envelope's schema depends on, if the payload is not expanded.
type envelopeKey struct {
	plan    *plan
	route   string
	version int64
	some    bool // there is a version
}

// maxEnvelopeSchemas bounds the cache of schemas' JSON.
const maxEnvelopeSchemas = 1000

// wrap makes the struct of payload and columns. Its schema is named after the table and the route value. Debezium
// keeps the first name it made for a payload schema, whatever the later rows' route value; this one does not.
func (d *Router) wrap(p *plan, row pgoutput.Tuple, route []byte, payload connect.Value,
	payloadSchema *connect.Schema,
) ([]byte, *router.RowError) {
	v := connect.Value{Kind: connect.KindStruct, List: []connect.Value{payload}}
	for i := range p.additional {
		a := &p.additional[i]
		if a.where != placedEnvelope {
			continue
		}
		item, err := p.read(row, &a.column)
		if err != nil {
			return nil, err
		}
		v.List = append(v.List, item)
	}
	key := envelopeKey{plan: p, route: string(route)}
	if p.schemaVersion.convert != nil {
		version, err := p.read(row, &p.schemaVersion)
		if err != nil {
			return nil, err
		}
		key.version, key.some = version.Int, version.Kind != connect.KindNull
	}
	e := d.envelopeOf(p, key, payloadSchema)
	v.Schema = e.schema
	out := converter{kind: d.cfg.ValueConverter, prefix: e.prefix}
	return d.write(p, row, &p.payload, &out, &v)
}

// envelopeSchema is an envelope's schema, and the converter's text in front of the value.
type envelopeSchema struct {
	schema *connect.Schema
	prefix []byte
}

// envelopeOf caches the schemas it builds, except for expanded payloads: each of them may have a schema of its own.
func (d *Router) envelopeOf(p *plan, key envelopeKey, payload *connect.Schema) *envelopeSchema {
	own := payload != p.payload.schema
	if e := d.schemas[key]; e != nil && !own {
		return e
	}
	e := &envelopeSchema{schema: p.envelopeSchema(key, payload)}
	if d.cfg.ValueConverter == converterJSONSchema {
		e.prefix = schemaPrefix(e.schema)
	}
	if !own && len(key.route) <= maxKeptRoute {
		if len(d.schemas) >= maxEnvelopeSchemas {
			clear(d.schemas)
		}
		d.schemas[key] = e
	}
	return e
}

func (p *plan) envelopeSchema(key envelopeKey, payload *connect.Schema) *connect.Schema {
	s := &connect.Schema{
		Type: connect.Struct, Name: p.prefix + key.route + ".Value", Version: int(key.version), HasVersion: key.some,
		Fields: []connect.Field{{Name: "payload", Schema: payload}},
	}
	for i := range p.additional {
		if a := &p.additional[i]; a.where == placedEnvelope {
			s.Fields = append(s.Fields, connect.Field{Name: a.alias, Schema: a.schema})
		}
	}
	return s
}
