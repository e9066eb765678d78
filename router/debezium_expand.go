package router

import (
	"errors"
	"math"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// errNotHomogeneous stands for the payloads that Debezium passes on unexpanded, with a warning: those that aren't JSON,
// and arrays whose elements have no type in common.
var errNotHomogeneous = errors.New("the payload has no Connect schema")

// errExpansion stands for payloads over which Debezium's task fails, or of which it makes something else.
var errExpansion = errors.New("a value in the payload has no faithful form in the schema that is inferred for it, so it can't be expanded")

// expand parses a JSON text and infers a schema, as JsonSchemaData does. What isn't an object or array stays as it is.
func (d *debezium) expand(p *plan, payload connect.Value) (connect.Value, *connect.Schema, error) {
	if payload.Kind != connect.KindText || len(payload.Data) == 0 || payload.Data[0] != '{' && payload.Data[0] != '[' {
		return payload, p.payload.schema, nil
	}
	node, err := parseJSON(payload.Data)
	if err != nil {
		return payload, p.payload.schema, nil
	}
	s, err := d.cfg.Expand.infer(p.payload.name, true, node)
	if err != nil || s == nil {
		return payload, p.payload.schema, nil
	}
	v, err := fill(node, s)
	if d.cfg.ValueConverter == converterString && (node.kind == '[' || errors.Is(err, errExpansion)) {
		// Debezium has put the inferred schema over the unexpanded text here. JsonConverter fails on that, StringConverter
		// looks at the value only.
		return payload, p.payload.schema, nil
	}
	return v, s, err
}

var (
	optionalString  = &connect.Schema{Type: connect.String, Optional: true}
	optionalBoolean = &connect.Schema{Type: connect.Boolean, Optional: true}
	optionalInt32   = &connect.Schema{Type: connect.Int32, Optional: true}
	optionalInt64   = &connect.Schema{Type: connect.Int64, Optional: true}
	optionalFloat64 = &connect.Schema{Type: connect.Float64, Optional: true}
	optionalBytes   = &connect.Schema{Type: connect.Bytes, Optional: true}
)

// infer returns the schema of a node, nil where it is to be left out. Structs are named by their path; within arrays of
// anything but objects there is none, as named says.
func (e ExpandJSON) infer(key string, named bool, n *jsonNode) (*connect.Schema, error) {
	switch n.kind {
	case '"':
		return optionalString, nil
	case 'b':
		return optionalBoolean, nil
	case 'i':
		return integerSchema(n), nil
	case 'f':
		return optionalFloat64, nil
	case '[':
		return e.inferArray(key, named, n)
	case '{':
		return e.inferObject(key, named, n)
	}
	if e.KeepNulls {
		return optionalBytes, nil
	}
	return nil, nil
}

// integerSchema gives integers beyond int64 the type of fractions, as Debezium does; fill refuses them.
func integerSchema(n *jsonNode) *connect.Schema {
	switch {
	case n.big:
		return optionalFloat64
	case n.integer >= math.MinInt32 && n.integer <= math.MaxInt32:
		return optionalInt32
	}
	return optionalInt64
}

func (e ExpandJSON) inferObject(key string, named bool, n *jsonNode) (*connect.Schema, error) {
	s := &connect.Schema{Type: connect.Struct, Optional: true}
	prefix := ""
	if named {
		s.Name = key
	}
	if named && key != "" {
		prefix = key + "."
	}
	for i := range n.list {
		f, err := e.infer(prefix+n.names[i], true, n.list[i])
		if err != nil {
			return nil, err
		}
		if f != nil && n.names[i] == "" {
			return nil, errNotHomogeneous // Connect knows no field without a name
		}
		if f != nil {
			s.Fields = append(s.Fields, connect.Field{Name: n.names[i], Schema: f})
		}
	}
	return s, nil
}

func (e ExpandJSON) inferArray(key string, named bool, n *jsonNode) (*connect.Schema, error) {
	if len(n.list) == 0 {
		if e.KeepEmptyLists {
			return &connect.Schema{Type: connect.Array, Optional: true, Items: optionalString}, nil
		}
		return nil, nil
	}
	var sample *jsonNode
	for _, item := range n.list {
		if item.kind == 'n' {
			continue
		}
		if sample == nil {
			sample = item
		}
		number := item.kind == 'i' || item.kind == 'f'
		if item.kind != sample.kind && !(number && (sample.kind == 'i' || sample.kind == 'f')) {
			return nil, errNotHomogeneous
		}
		if number && numberSchema(item) != numberSchema(sample) {
			return nil, errNotHomogeneous
		}
	}
	var items *connect.Schema
	var err error
	switch {
	case sample != nil && sample.kind == '{':
		items, err = e.mergeObjects(key, named, n.list)
	case sample != nil:
		items, err = e.infer("", false, sample)
	case e.KeepNulls:
		items = optionalBytes
	}
	if err != nil {
		return nil, err
	}
	if items == nil {
		return nil, errNotHomogeneous
	}
	return &connect.Schema{Type: connect.Array, Optional: true, Items: items}, nil
}

func numberSchema(n *jsonNode) *connect.Schema {
	if n.kind == 'f' {
		return optionalFloat64
	}
	return integerSchema(n)
}

// mergeObjects unites the fields of all objects of an array. Debezium takes the fields in the order of Java's hash codes,
// and of two structs for a field either one, whose members the other's values then lack; here the order is that of the
// elements, and structs are united as well.
func (e ExpandJSON) mergeObjects(key string, named bool, list []*jsonNode) (*connect.Schema, error) {
	var merged *connect.Schema
	for _, item := range list {
		if item.kind != '{' {
			continue
		}
		s, err := e.inferObject(key, named, item)
		if err != nil {
			return nil, err
		}
		merged = united(merged, s)
	}
	return merged, nil
}

// united adds the fields of b to a, which may be changed. Where the types differ a's counts, unless it only stands for a
// null.
func united(a, b *connect.Schema) *connect.Schema {
	switch {
	case a == nil || a.Type == connect.Bytes:
		return b
	case a.Type == connect.Array && b.Type == connect.Array:
		a.Items = united(a.Items, b.Items)
	case a.Type == connect.Struct && b.Type == connect.Struct:
		for _, f := range b.Fields {
			i := slices.IndexFunc(a.Fields, func(have connect.Field) bool { return have.Name == f.Name })
			if i < 0 {
				a.Fields = append(a.Fields, f)
				continue
			}
			a.Fields[i].Schema = united(a.Fields[i].Schema, f.Schema)
		}
	}
	return a
}

// fill makes the value of a node by its schema. A value of another type than its schema's is one over which Debezium's
// converter fails.
func fill(n *jsonNode, s *connect.Schema) (connect.Value, error) {
	wrong := func(t connect.Type) bool { return s.Type != t }
	switch n.kind {
	case '"':
		if wrong(connect.String) || n.broken {
			return connect.Value{}, errExpansion
		}
		return connect.Text([]byte(n.text)), nil
	case 'b':
		if wrong(connect.Boolean) {
			return connect.Value{}, errExpansion
		}
		return connect.Value{Kind: connect.KindBool, Int: n.integer}, nil
	case 'i':
		if n.big || wrong(integerSchema(n).Type) {
			return connect.Value{}, errExpansion
		}
		return connect.Int(n.integer), nil
	case 'f':
		if wrong(connect.Float64) || math.IsInf(n.float, 0) {
			return connect.Value{}, errExpansion
		}
		return connect.Value{Kind: connect.KindFloat64, Float: n.float}, nil
	case '[':
		if wrong(connect.Array) {
			return connect.Value{}, errExpansion
		}
		v := connect.Value{Kind: connect.KindList}
		for _, item := range n.list {
			c, err := fill(item, s.Items)
			if err != nil {
				return connect.Value{}, err
			}
			v.List = append(v.List, c)
		}
		return v, nil
	case '{':
		if wrong(connect.Struct) {
			return connect.Value{}, errExpansion
		}
		v := connect.Value{Kind: connect.KindStruct, Schema: s, List: make([]connect.Value, len(s.Fields))}
		for i, f := range s.Fields {
			if at, ok := n.index[f.Name]; ok {
				var err error
				if v.List[i], err = fill(n.list[at], f.Schema); err != nil {
					return connect.Value{}, err
				}
			}
		}
		return v, nil
	}
	return connect.Value{}, nil
}
