package pgtype

import (
	"errors"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// arrays holds the element type of the array types that Debezium converts. Debezium does not convert arrays of money,
// name, interval, bit, xml and point.
var arrays = map[uint32]uint32{
	199: 114, 651: 650, 775: 774, 1000: 16, 1001: 17, 1002: 18, 1005: 21, 1007: 23, 1009: 25, 1014: 1042, 1015: 1043,
	1016: 20, 1021: 700, 1022: 701, 1028: 26, 1040: 829, 1041: 869, 1115: 1114, 1182: 1082, 1183: 1083, 1185: 1184,
	1231: 1700, 1270: 1266, 2951: 2950, 3807: 3802, 3905: 3904, 3907: 3906, 3909: 3908, 3911: 3910, 3913: 3912,
	3927: 3926,
}

// array reads Postgres' array text (docs 8.15.6): braces, commas, NULL, quotes with backslashes. An array of arrays has
// no Connect schema, and is refused; so are bounds other than from 1, which would get lost.
func (o Options) array(element *Converter) *Converter {
	if element == nil {
		return nil
	}
	optional := !strings.HasSuffix(element.Schema.Name, ".Enum")
	s := &connect.Schema{Type: connect.Array, Items: element.Schema.AsOptional(optional)}
	return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
		if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
			return connect.Value{}, errMalformed
		}
		v := connect.Value{Kind: connect.KindList}
		for rest := b[1 : len(b)-1]; len(rest) > 0; {
			item, null, after, err := arrayItem(rest)
			if err != nil {
				return connect.Value{}, err
			}
			var converted connect.Value
			if !null {
				if converted, err = element.Convert(item); err != nil {
					return connect.Value{}, err
				}
			}
			v.List = append(v.List, converted)
			rest = after
		}
		return v, nil
	}}
}

// arrayItem reads one item and the comma after it.
func arrayItem(b []byte) (item []byte, null bool, rest []byte, err error) {
	if b[0] == '{' {
		return nil, false, nil, errors.New("arrays of arrays have no counterpart in Connect")
	}
	quoted := b[0] == '"'
	i := 0
	if quoted {
		i = 1
	}
	for ; ; i++ {
		if i == len(b) {
			if quoted {
				return nil, false, nil, errMalformed
			}
			break
		}
		c := b[i]
		if quoted && c == '"' {
			i++
			break
		}
		if !quoted && c == ',' {
			break
		}
		if c == '\\' {
			if i++; i == len(b) {
				return nil, false, nil, errMalformed
			}
			c = b[i]
		}
		item = append(item, c)
	}
	rest = b[i:]
	if len(rest) > 0 {
		if rest[0] != ',' || len(rest) == 1 {
			return nil, false, nil, errMalformed
		}
		rest = rest[1:]
	}
	if item == nil {
		item = []byte{}
	}
	return item, !quoted && string(item) == "NULL", rest, nil
}
