package debezium

import (
	"fmt"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/internal/base/properties"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/java"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/message"
)

// Route returns the record of a row, see Router. EventRouterDelegate.apply gives the order of things.
func (d *Router) Route(rel *pgoutput.Relation, row pgoutput.Tuple, src router.Source) (*router.Record, error) {
	p := d.planOf(rel)
	if err := p.Check(row); err != nil {
		return nil, err
	}
	if cap(d.buf) > layout.MaxKeptBuffer {
		d.buf = nil
	}
	d.buf, d.list = d.buf[:0], d.list[:0]
	route, err := p.Text(row, p.route.Field)
	if err != nil {
		return nil, err
	}
	topic, err := d.topic(p, row, route)
	if err != nil {
		return nil, err
	}
	value, err := d.value(p, row, route)
	if err != nil {
		return nil, err
	}
	key, err := d.encode(p, row, &p.key, &p.keyOut)
	if err != nil {
		return nil, err
	}
	if err := d.headers(p, row, src); err != nil {
		return nil, err
	}
	partition, err := p.partition(row)
	if err != nil {
		return nil, err
	}
	timestamp, err := p.Time(row, src.CommitTime)
	if err != nil {
		return nil, err
	}
	d.record = router.Record{
		Topic: topic, Partition: partition, Key: key, Value: value, Headers: d.list, Timestamp: timestamp,
	}
	return &d.record, nil
}

// Fits reports whether rel has every column that an event needs.
func (d *Router) Fits(rel *pgoutput.Relation) bool {
	if p := d.plans[rel.OID]; p != nil && p.Rel == rel {
		return p.Missing == nil
	}
	// Not kept: Prepare has not asked the catalog yet, and would take the plan for one that it made.
	return d.newPlan(rel, router.Catalog{}).Missing == nil
}

// Message returns a logical message as a row, see Router.
func (d *Router) Message(l *pgoutput.LogicalMessage) (*pgoutput.Relation, pgoutput.Tuple, error) {
	if d.messages == nil {
		d.messages = message.New(d.messageColumns())
	}
	return d.messages.Row(l)
}

func (d *Router) messageColumns() message.Columns {
	c := d.cfg.Columns
	m := message.Columns{
		Parts: []message.Part{
			{Member: "id", Column: c.ID, OID: layout.OIDText},
			{Member: "aggregate_type", Column: c.Route, OID: layout.OIDText},
			{Member: "aggregate_id", Column: c.Key, OID: layout.OIDText},
			{Member: message.MemberPayload, Column: c.Payload, OID: layout.OIDJSON},
			{Member: "timestamp", Column: c.Timestamp, OID: layout.OIDTimestampTZ},
		},
		Payload: c.Payload, Timestamp: c.Timestamp,
		Others: []string{c.SchemaVersion, c.Tracing},
	}
	for _, p := range d.placements {
		m.Others = append(m.Others, p.column)
	}
	return m
}

// A topic's name is short, but a pattern may make it of a part of the route value. Matching takes time by the value's
// length, and the caches below hold some thousands of values.
const (
	maxRoute     = 64 << 10
	maxKeptRoute = 1 << 10
)

// topic applies the regular expression to route values not seen before.
func (d *Router) topic(p *plan, row pgoutput.Tuple, route []byte) (string, *router.RowError) {
	if d.cfg.Topic != "" {
		return d.cfg.Topic, nil
	}
	if route == nil {
		return "", p.Unroutable(row, p.route.Field, true)
	}
	if name, ok := d.topics[string(route)]; ok {
		return name, nil
	}
	if len(route) > maxRoute {
		return "", p.Refuse(row, router.Unroutable, p.route.Name,
			fmt.Sprintf("the value has more than %d bytes", maxRoute), "Correct what the application writes there.")
	}
	if !java.Printable(route) {
		return "", p.Refuse(row, router.Unroutable, p.route.Name,
			"the value holds characters other than printable ASCII",
			"Correct what the application writes there; such characters cannot stand in a topic's name.")
	}
	value := string(route)
	name, matched := d.replace.Replace(value)
	if !matched {
		name = value
	}
	if err := router.CheckEventTopic(name, d.taken); err != nil {
		return "", p.Refuse(row, router.IllegalTopic, p.route.Name, err.Error(),
			"Correct what the application writes there, or change router.debezium.topic_regex and topic_replacement; "+
				"names are never changed to fit.")
	}
	if len(value) > maxKeptRoute {
		return name, nil
	}
	if len(d.topics) >= layout.MaxTopics {
		clear(d.topics)
	}
	d.topics[value] = name
	return name, nil
}

// read converts a column's value. NULL is a null value.
func (p *plan) read(row pgoutput.Tuple, c *column) (connect.Value, *router.RowError) {
	text, err := p.Text(row, c.Field)
	if err != nil || text == nil {
		return connect.Value{}, err
	}
	if row[c.Index].Kind == pgoutput.Binary && c.Oid == layout.OIDBytea {
		return connect.Value{}, p.Refuse(row, router.BinaryValue, c.Name, "the value came in binary format",
			"Start the stream without the option binary.")
	}
	v, cerr := c.convert.Convert(text)
	if cerr != nil {
		return connect.Value{}, p.badValue(row, c, cerr)
	}
	return v, nil
}

func (p *plan) badValue(row pgoutput.Tuple, c *column, err error) *router.RowError {
	return p.Refuse(row, router.BadValue, c.Name, err.Error(),
		"Correct what the application writes there, or the connector's options for such values.")
}

// encode writes a column's value by a converter; nil for a null, unless the converter writes one.
func (d *Router) encode(p *plan, row pgoutput.Tuple, c *column, out *converter) ([]byte, *router.RowError) {
	if c.convert.Plain && out.plain() {
		return p.Text(row, c.Field)
	}
	v, err := p.read(row, c)
	if err != nil {
		return nil, err
	}
	return d.write(p, row, c, out, &v)
}

// write appends to the buffer of the row. Slices of it stay valid when it grows, on the memory it had.
func (d *Router) write(p *plan, row pgoutput.Tuple, c *column, out *converter,
	v *connect.Value,
) ([]byte, *router.RowError) {
	if v.Kind == connect.KindNull && out.nullIsNil() {
		return nil, nil
	}
	if out.kind == converterBinary && v.Kind != connect.KindBytes {
		return nil, p.badValue(row, c, errNotBytes)
	}
	start := len(d.buf)
	d.buf = out.append(d.buf, v)
	if len(d.buf) == start {
		return layout.Empty, nil
	}
	return d.buf[start:len(d.buf):len(d.buf)], nil
}

// headers fills the list: context, tracing, id, additional ones, position.
func (d *Router) headers(p *plan, row pgoutput.Tuple, src router.Source) *router.RowError {
	d.list = append(d.list, d.context...)
	if err := d.trace(p, row); err != nil {
		return err
	}
	id, err := d.encode(p, row, &p.id, &p.idOut)
	if err != nil {
		return err
	}
	d.list = append(d.list, router.Header{Key: router.HeaderID, Value: id})
	for i := range p.additional {
		a := &p.additional[i]
		if a.where != placedHeader {
			continue
		}
		value, err := d.encode(p, row, &a.column, &a.out)
		if err != nil {
			return err
		}
		d.list = append(d.list, router.Header{Key: a.alias, Value: value})
	}
	if d.cfg.PositionHeader && src.Position != nil {
		d.list = append(d.list, router.Header{Key: router.HeaderPosition, Value: src.Position})
	}
	return nil
}

// trace appends the entries of the tracing column, java.util.Properties text that a tracer wrote.
func (d *Router) trace(p *plan, row pgoutput.Tuple) *router.RowError {
	if p.tracing.convert == nil {
		return nil
	}
	text, err := p.Text(row, p.tracing.Field)
	if err != nil || text == nil {
		return err
	}
	if len(text) > router.MaxHeaderBytes {
		return p.Refuse(row, router.HeadersTooLarge, p.tracing.Name,
			fmt.Sprintf("the text has more than %d bytes", router.MaxHeaderBytes),
			"Correct what the application writes there.")
	}
	entries, perr := properties.Parse(text)
	if perr != nil {
		return p.badValue(row, &p.tracing, perr)
	}
	for _, entry := range entries {
		if err := router.CheckHeaderName(string(entry.Key)); err != nil {
			return p.Refuse(row, router.BadHeaders, p.tracing.Name, err.Error(),
				"Correct what the application writes there.")
		}
		d.list = append(d.list, router.Header{Key: string(entry.Key), Value: entry.Value})
	}
	if len(entries) > router.MaxHeaders {
		return p.Refuse(row, router.HeadersTooLarge, p.tracing.Name,
			"there are more than "+strconv.Itoa(router.MaxHeaders)+" headers",
			"Correct what the application writes there.")
	}
	return nil
}

// partition is that of the last column placed there, as in Debezium.
func (p *plan) partition(row pgoutput.Tuple) (int32, *router.RowError) {
	partition := int32(-1)
	for i := range p.additional {
		a := &p.additional[i]
		if a.where != placedPartition {
			continue
		}
		v, err := p.read(row, &a.column)
		if err != nil {
			return 0, err
		}
		partition = -1
		if v.Kind == connect.KindNull {
			continue
		}
		if v.Int < 0 {
			return 0, p.Refuse(row, router.BadValue, a.Name, "the partition is negative",
				"Correct what the application writes there; NULL leaves the choice to the key.")
		}
		partition = int32(v.Int) // int4
	}
	return partition, nil
}
