package router

import (
	"fmt"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/java"
)

// route makes the record of a row; see EventRouterDelegate.apply for the order of things.
func (d *debezium) makeRecord(p *plan, row pgoutput.Tuple, src Source) (*Record, error) {
	if err := p.check(row); err != nil {
		return nil, err
	}
	if cap(d.buf) > maxKeptBuffer {
		d.buf = nil
	}
	d.buf, d.list = d.buf[:0], d.list[:0]
	route, err := p.text(row, p.route.field)
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
	timestamp, err := p.time(row, src.CommitTime)
	if err != nil {
		return nil, err
	}
	d.record = Record{Topic: topic, Partition: partition, Key: key, Value: value, Headers: d.list, Timestamp: timestamp}
	return &d.record, nil
}

// A topic's name is short, but a pattern may make it of a part of the route value. Matching takes time by the value's
// length, and the caches below hold some thousands of values.
const (
	maxRoute     = 64 << 10
	maxKeptRoute = 1 << 10
)

// topic applies the regular expression to route values not seen before.
func (d *debezium) topic(p *plan, row pgoutput.Tuple, route []byte) (string, *RowError) {
	if d.cfg.Topic != "" {
		return d.cfg.Topic, nil
	}
	if route == nil {
		return "", p.unroutable(row, p.route.field, true)
	}
	if name, ok := d.topics[string(route)]; ok {
		return name, nil
	}
	if len(route) > maxRoute {
		return "", p.refuse(row, Unroutable, p.route.name, fmt.Sprintf("the value has more than %d bytes", maxRoute), "Correct what the application writes there.")
	}
	if !java.Printable(route) {
		return "", p.refuse(row, Unroutable, p.route.name, "the value holds characters other than printable ASCII",
			"Correct what the application writes there; such characters can't stand in a topic's name.")
	}
	value := string(route)
	name, matched := d.replace.Replace(value)
	if !matched {
		name = value
	}
	if err := checkEventTopic(name, d.taken); err != nil {
		return "", p.refuse(row, IllegalTopic, p.route.name, err.Error(),
			"Correct what the application writes there, or change router.debezium.topic_regex and topic_replacement; names are never changed to fit.")
	}
	if len(value) > maxKeptRoute {
		return name, nil
	}
	if len(d.topics) >= maxTopics {
		clear(d.topics)
	}
	d.topics[value] = name
	return name, nil
}

// read converts a column's value. NULL is a null value.
func (p *plan) read(row pgoutput.Tuple, c *column) (connect.Value, *RowError) {
	text, err := p.text(row, c.field)
	if err != nil || text == nil {
		return connect.Value{}, err
	}
	if row[c.index].Kind == pgoutput.Binary && c.oid == oidBytea {
		return connect.Value{}, p.refuse(row, BinaryValue, c.name, "the value came in binary format", "Start the stream without the option binary.")
	}
	v, cerr := c.convert.Convert(text)
	if cerr != nil {
		return connect.Value{}, p.badValue(row, c, cerr)
	}
	return v, nil
}

func (p *plan) badValue(row pgoutput.Tuple, c *column, err error) *RowError {
	return p.refuse(row, BadValue, c.name, err.Error(), "Correct what the application writes there, or the connector's options for such values.")
}

// encode writes a column's value by a converter; nil for a null, unless the converter writes one.
func (d *debezium) encode(p *plan, row pgoutput.Tuple, c *column, out *converter) ([]byte, *RowError) {
	if c.convert.Plain && out.plain() {
		return p.text(row, c.field)
	}
	v, err := p.read(row, c)
	if err != nil {
		return nil, err
	}
	return d.write(p, row, c, out, &v)
}

// write appends to the buffer of the row. Slices of it stay valid when it grows, on the memory it had.
func (d *debezium) write(p *plan, row pgoutput.Tuple, c *column, out *converter, v *connect.Value) ([]byte, *RowError) {
	if v.Kind == connect.KindNull && out.nullIsNil() {
		return nil, nil
	}
	if out.kind == converterBinary && v.Kind != connect.KindBytes {
		return nil, p.badValue(row, c, errNotBytes)
	}
	start := len(d.buf)
	d.buf = out.append(d.buf, v)
	if len(d.buf) == start {
		return empty, nil
	}
	return d.buf[start:len(d.buf):len(d.buf)], nil
}

// headers fills the list: context, tracing, id, additional ones, position.
func (d *debezium) headers(p *plan, row pgoutput.Tuple, src Source) *RowError {
	d.list = append(d.list, d.context...)
	if err := d.trace(p, row); err != nil {
		return err
	}
	id, err := d.encode(p, row, &p.id, &p.idOut)
	if err != nil {
		return err
	}
	d.list = append(d.list, Header{Key: headerID, Value: id})
	for i := range p.additional {
		a := &p.additional[i]
		if a.where != placedHeader {
			continue
		}
		value, err := d.encode(p, row, &a.column, &a.out)
		if err != nil {
			return err
		}
		d.list = append(d.list, Header{Key: a.alias, Value: value})
	}
	if d.cfg.PositionHeader && src.Position != nil {
		d.list = append(d.list, Header{Key: headerPosition, Value: src.Position})
	}
	return nil
}

// trace appends the entries of the tracing column, java.util.Properties text that a tracer wrote.
func (d *debezium) trace(p *plan, row pgoutput.Tuple) *RowError {
	if p.tracing.convert == nil {
		return nil
	}
	text, err := p.text(row, p.tracing.field)
	if err != nil || text == nil {
		return err
	}
	if len(text) > MaxHeaderBytes {
		return p.refuse(row, HeadersTooLarge, p.tracing.name, fmt.Sprintf("the text has more than %d bytes", MaxHeaderBytes), "Correct what the application writes there.")
	}
	properties, perr := java.ParseProperties(text)
	if perr != nil {
		return p.badValue(row, &p.tracing, perr)
	}
	for _, entry := range properties {
		if err := checkHeaderName(string(entry.Key)); err != nil {
			return p.refuse(row, BadHeaders, p.tracing.name, err.Error(), "Correct what the application writes there.")
		}
		d.list = append(d.list, Header{Key: string(entry.Key), Value: entry.Value})
	}
	if len(properties) > MaxHeaders {
		return p.refuse(row, HeadersTooLarge, p.tracing.name, "there are more than "+strconv.Itoa(MaxHeaders)+" headers", "Correct what the application writes there.")
	}
	return nil
}

// partition is that of the last column placed there, as in Debezium.
func (p *plan) partition(row pgoutput.Tuple) (int32, *RowError) {
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
			return 0, p.refuse(row, BadValue, a.name, "the partition is negative", "Correct what the application writes there; NULL leaves the choice to the key.")
		}
		partition = int32(v.Int) // int4
	}
	return partition, nil
}
