package pgtype

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

var errByteaFormat = errors.New("the bytea text is not in hex format; let the connector's role use the default: " +
	"ALTER ROLE ... SET bytea_output = 'hex'")

// bytea is bytes, or one of three texts for them.
func (o Options) bytea(int32) *Converter {
	schema := &connect.Schema{Type: connect.String}
	encode := func(b []byte) connect.Value { return connect.Value{Kind: connect.KindBytes, Data: b} }
	switch o.Binary {
	case "base64":
		encode = func(b []byte) connect.Value { return connect.Text(base64.StdEncoding.AppendEncode(nil, b)) }
	case "base64-url-safe":
		encode = func(b []byte) connect.Value { return connect.Text(base64.URLEncoding.AppendEncode(nil, b)) }
	case "hex":
		encode = func(b []byte) connect.Value { return connect.Text(hex.AppendEncode(nil, b)) }
	default:
		schema = &connect.Schema{Type: connect.Bytes}
	}
	return &Converter{Schema: schema, Convert: func(text []byte) (connect.Value, error) {
		if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
			return connect.Value{}, errByteaFormat
		}
		b := make([]byte, hex.DecodedLen(len(text)-2))
		if _, err := hex.Decode(b, text[2:]); err != nil {
			return connect.Value{}, errByteaFormat
		}
		return encode(b), nil
	}}
}

// bits: a single bit is a boolean, more are bytes with the last bit of the text in the lowest one, and no more bytes
// than the highest set bit needs. The length of a varbit without one is Java's largest int.
func bits(_ Options, modifier int32) *Converter {
	length := int(modifier)
	if length < 0 {
		length = 1<<31 - 1
	}
	if length == 1 {
		return &Converter{
			Schema: &connect.Schema{Type: connect.Boolean}, Convert: func(b []byte) (connect.Value, error) {
				if len(b) != 1 || b[0]&^1 != '0' {
					return connect.Value{}, errMalformed
				}
				return connect.Value{Kind: connect.KindBool, Int: int64(b[0] - '0')}, nil
			},
		}
	}
	s := &connect.Schema{
		Type: connect.Bytes, Name: "io.debezium.data.Bits", Version: 1,
		Parameters: []connect.Parameter{{Name: "length", Value: strconv.Itoa(length)}},
	}
	return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
		out := make([]byte, 0, len(b)/8+1)
		for i := range b {
			switch b[len(b)-1-i] {
			case '1':
				for len(out) <= i/8 {
					out = append(out, 0)
				}
				out[i/8] |= 1 << (i % 8)
			case '0':
			default:
				return connect.Value{}, errMalformed
			}
		}
		return connect.Value{Kind: connect.KindBytes, Data: out}, nil
	}}
}
