package debezium

import (
	"math"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// fill makes the value of a node by its schema. A value of another type than its schema's is one over which Debezium's
// converter fails.
func (in *inference) fill(n *jsonNode, s *connect.Schema) (connect.Value, error) {
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
			c, err := in.fill(item, s.Items)
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
		return in.fillStruct(n, s)
	}
	return connect.Value{}, nil
}

// missingMember is the memory in bytes of a member that an object lacks and another one of its array has.
const missingMember = 128

func (in *inference) fillStruct(n *jsonNode, s *connect.Schema) (connect.Value, error) {
	if err := in.spend(missingMember * max(0, len(s.Fields)-len(n.index))); err != nil {
		return connect.Value{}, err
	}
	v := connect.Value{Kind: connect.KindStruct, Schema: s, List: make([]connect.Value, len(s.Fields))}
	for i, f := range s.Fields {
		at, ok := n.index[f.Name]
		if !ok {
			if err := in.spend(len(f.Name)); err != nil { // it is written with null
				return connect.Value{}, err
			}
			continue
		}
		var err error
		if v.List[i], err = in.fill(n.list[at], f.Schema); err != nil {
			return connect.Value{}, err
		}
	}
	return v, nil
}
