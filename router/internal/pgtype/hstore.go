package pgtype

import (
	"bytes"
	"slices"
	"unicode/utf16"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// hstore is JSON text, or a map. Either way its order is that of a java.util.HashMap.
func (o Options) hstore(int32) *Converter {
	if o.HStore == "map" {
		s := &connect.Schema{
			Type: connect.Map, Keys: &connect.Schema{Type: connect.String},
			Items: &connect.Schema{Type: connect.String, Optional: true},
		}
		return &Converter{Schema: s, Convert: parseHStore}
	}
	c := text(jsonName)
	c.Plain = false
	c.Convert = func(b []byte) (connect.Value, error) {
		v, err := parseHStore(b)
		if err != nil {
			return connect.Value{}, err
		}
		return connect.Text(connect.AppendJSONText(nil, &v)), nil
	}
	return c
}

// parseHStore reads "key"=>"value", "key"=>NULL (docs F.17).
func parseHStore(b []byte) (connect.Value, error) {
	v := connect.Value{Kind: connect.KindMap}
	for len(b) > 0 {
		key, rest, ok := hstoreString(b)
		if !ok {
			return v, errMalformed
		}
		if rest, ok = bytes.CutPrefix(rest, []byte("=>")); !ok {
			return v, errMalformed
		}
		value := connect.Value{}
		if after, null := bytes.CutPrefix(rest, []byte("NULL")); null {
			rest = after
		} else {
			var s []byte
			if s, rest, ok = hstoreString(rest); !ok {
				return v, errMalformed
			}
			value = connect.Text(s)
		}
		v.List = append(v.List, connect.Text(key), value)
		if len(rest) > 0 {
			if rest, ok = bytes.CutPrefix(rest, []byte(", ")); !ok || len(rest) == 0 {
				return v, errMalformed
			}
		}
		b = rest
	}
	v.List = hashMapOrder(v.List)
	return v, nil
}

func hstoreString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	s = []byte{}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return s, b[i+1:], true
		case '\\':
			if i++; i == len(b) {
				return nil, nil, false
			}
		}
		s = append(s, b[i])
	}
	return nil, nil, false
}

// hashMapOrder brings key-value pairs into the order in which a java.util.HashMap that they were put into returns them:
// by bucket, within one as they came. A map of n entries has the least power of two, from 16, of which n is at most
// three quarters.
func hashMapOrder(pairs []connect.Value) []connect.Value {
	n := len(pairs) / 2
	buckets := uint32(16)
	for n*4 > int(buckets)*3 {
		buckets *= 2
	}
	type entry struct {
		bucket uint32
		at     int
	}
	order := make([]entry, n)
	for i := range order {
		var h uint32 // String.hashCode
		for _, unit := range utf16.Encode([]rune(string(pairs[2*i].Data))) {
			h = 31*h + uint32(unit)
		}
		order[i] = entry{bucket: (h ^ h>>16) & (buckets - 1), at: 2 * i}
	}
	slices.SortStableFunc(order, func(a, b entry) int { return int(a.bucket) - int(b.bucket) })
	out := make([]connect.Value, 0, len(pairs))
	for _, e := range order {
		out = append(out, pairs[e.at], pairs[e.at+1])
	}
	return out
}
