package debezium

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// errNotHomogeneous marks the payloads that Debezium passes on unexpanded, with a warning: text that is not JSON, and
// arrays whose elements have no type in common.
var errNotHomogeneous = errors.New("the payload has no Connect schema")

// errExpansion stands for payloads over which Debezium's task fails, or of which it makes something else.
var errExpansion = errors.New("a value in the payload has no faithful form in the schema that is inferred for it, so " +
	"it cannot be expanded")

// errTooMuch stands for payloads that grow beyond all measure: objects of an array that have no member in common (each
// gets all members of all others), or long names at great depth (each object's schema is named by its path). A few
// hundred kilobytes of such a payload would take gigabytes and minutes, so one row could stop the relay again and
// again.
var errTooMuch = fmt.Errorf("expanding the payload would add more than %d MiB to it", maxExpansion>>20)

// maxExpansion bounds the memory in bytes that expansion adds to a payload.
const maxExpansion = 64 << 20

// inference is the expansion of one payload.
type inference struct {
	ExpandJSON
	named bool // structs get names; only schemas that are written need them
	left  int  // of maxExpansion
}

func (in *inference) spend(n int) error {
	if in.left -= n; in.left < 0 {
		return errTooMuch
	}
	return nil
}

// expand parses a JSON text and infers a schema, as JsonSchemaData does. Any other payload stays as it is.
func (d *Router) expand(p *plan, payload connect.Value) (connect.Value, *connect.Schema, error) {
	if payload.Kind != connect.KindText || len(payload.Data) == 0 || payload.Data[0] != '{' && payload.Data[0] != '[' {
		return payload, p.payload.schema, nil
	}
	node, err := parseJSON(payload.Data)
	if err != nil {
		return payload, p.payload.schema, nil //nolint:nilerr // a text that is not JSON stays as it is
	}
	in := &inference{ExpandJSON: d.cfg.Expand, named: d.cfg.ValueConverter == converterJSONSchema, left: maxExpansion}
	s, err := in.infer(p.payload.Name, in.named, node)
	if errors.Is(err, errTooMuch) {
		return payload, nil, err
	}
	if err != nil {
		return payload, p.payload.schema, nil //nolint:nilerr // a payload without a schema stays as it is
	}
	if s == nil && d.envelope {
		return payload, p.payload.schema, nil
	}
	if s == nil {
		return payload, nil, nil // an empty array: Debezium has put no schema over the text
	}
	v, err := in.fill(node, s)
	if d.cfg.ValueConverter == converterString && (node.kind == '[' || errors.Is(err, errExpansion)) {
		// Debezium has put the inferred schema over the unexpanded text here. JsonConverter fails on that,
		// StringConverter looks at the value only.
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

// infer returns the schema of a node, nil if it is to be left out. Structs are named by their path; within arrays of
// anything but objects there is none, as named says.
func (in *inference) infer(key string, named bool, n *jsonNode) (*connect.Schema, error) {
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
		return in.inferArray(key, named, n)
	case '{':
		return in.inferObject(key, named, n)
	}
	if in.KeepNulls {
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

func (in *inference) inferObject(key string, named bool, n *jsonNode) (*connect.Schema, error) {
	s := &connect.Schema{Type: connect.Struct, Optional: true}
	if named {
		s.Name = key
	}
	for i := range n.list {
		path := n.names[i]
		switch nested := n.list[i].kind == '{' || n.list[i].kind == '['; {
		case !in.named || !nested: // has no use for it
		case named && key != "":
			if err := in.spend(len(key) + len(path)); err != nil {
				return nil, err
			}
			path = key + "." + path
		}
		f, err := in.infer(path, in.named, n.list[i])
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

func (in *inference) inferArray(key string, named bool, n *jsonNode) (*connect.Schema, error) {
	if len(n.list) == 0 {
		if in.KeepEmptyLists {
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
		items, err = in.mergeObjects(key, named, n.list)
	case sample != nil:
		items, err = in.infer("", false, sample)
	case in.KeepNulls:
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

// mergeObjects unites the fields of all objects of an array. Debezium takes the fields in the order of Java's hash
// codes, and of two structs for a field either one, whose members the other's values then lack; here the order is that
// of the elements, and structs are united as well. A schema that Debezium has merged from different ones is no longer
// optional, so it fails on an element that is null; here such an array keeps an optional one.
func (in *inference) mergeObjects(key string, named bool, list []*jsonNode) (*connect.Schema, error) {
	var merged *connect.Schema
	differ, null := false, false
	for _, item := range list {
		if item.kind != '{' {
			null = true
			continue
		}
		s, err := in.inferObject(key, named, item)
		if err != nil {
			return nil, err
		}
		differ = differ || merged != nil && !merged.Equal(s)
		if merged, err = in.united(merged, s); err != nil {
			return nil, err
		}
	}
	merged.Optional = !differ || null
	return merged, nil
}

// united adds the fields of b to a, which may be changed. If the types differ a's counts, unless it only stands for
// a null.
func (in *inference) united(a, b *connect.Schema) (*connect.Schema, error) {
	var err error
	switch {
	case a == nil || a.Type == connect.Bytes:
		return b, nil
	case a.Type == connect.Array && b.Type == connect.Array:
		a.Items, err = in.united(a.Items, b.Items)
	case a.Type == connect.Struct && b.Type == connect.Struct:
		err = in.uniteFields(a, b)
	}
	return a, err
}

func (in *inference) uniteFields(a, b *connect.Schema) error {
	find := finder{fields: a.Fields, many: len(b.Fields) > fewFields}
	for at, f := range b.Fields { // whose names differ
		i, err := find.at(in, at, f.Name)
		if err != nil {
			return err
		}
		if i < 0 {
			a.Fields = append(a.Fields, f)
			continue
		}
		if a.Fields[i].Schema, err = in.united(a.Fields[i].Schema, f.Schema); err != nil {
			return err
		}
	}
	return nil
}

// fewFields is the largest number of fields for which linear searches cost less than an index.
const fewFields = 16

// finder finds fields by name. Objects of an array mostly have the same members in the same order.
type finder struct {
	fields []connect.Field
	many   bool // are looked for
	index  map[string]int
}

func (f *finder) at(in *inference, hint int, name string) (int, error) {
	if hint < len(f.fields) && f.fields[hint].Name == name {
		return hint, nil
	}
	if !f.many {
		return slices.IndexFunc(f.fields, func(have connect.Field) bool { return have.Name == name }),
			in.spend(len(f.fields))
	}
	if f.index == nil {
		if err := in.spend(fewFields * len(f.fields)); err != nil {
			return -1, err
		}
		f.index = make(map[string]int, len(f.fields))
		for i := range f.fields {
			f.index[f.fields[i].Name] = i
		}
	}
	if i, ok := f.index[name]; ok {
		return i, nil
	}
	return -1, nil
}
