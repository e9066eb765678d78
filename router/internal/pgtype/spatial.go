package pgtype

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// point is a struct with the coordinates, and with them again as well-known binary.
func point(Options, int32) *Converter {
	s := &connect.Schema{
		Type: connect.Struct, Name: "io.debezium.data.geometry.Point", Version: 1, Doc: "Geometry (POINT)",
		Fields: []connect.Field{
			{Name: "x", Schema: &connect.Schema{Type: connect.Float64}},
			{Name: "y", Schema: &connect.Schema{Type: connect.Float64}},
			{Name: "wkb", Schema: &connect.Schema{Type: connect.Bytes, Optional: true}},
			{Name: "srid", Schema: &connect.Schema{Type: connect.Int32, Optional: true}},
		},
	}
	return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
		inner, ok := bytes.CutPrefix(b, []byte("("))
		inner, ok2 := bytes.CutSuffix(inner, []byte(")"))
		first, second, ok3 := bytes.Cut(inner, []byte(","))
		x, err1 := strconv.ParseFloat(string(first), 64)
		y, err2 := strconv.ParseFloat(string(second), 64)
		if !ok || !ok2 || !ok3 || err1 != nil || err2 != nil {
			return connect.Value{}, errMalformed
		}
		wkb := []byte{1, 1, 0, 0, 0} // little endian, a point
		wkb = binary.LittleEndian.AppendUint64(wkb, math.Float64bits(x))
		wkb = binary.LittleEndian.AppendUint64(wkb, math.Float64bits(y))
		return connect.Value{Kind: connect.KindStruct, Schema: s, List: []connect.Value{
			{Kind: connect.KindFloat64, Float: x},
			{Kind: connect.KindFloat64, Float: y},
			{Kind: connect.KindBytes, Data: wkb},
			{},
		}}, nil
	}}
}

// geometry reads PostGIS's output, hexadecimal EWKB. The bytes stay as they are; the reference system is read from
// them.
func geometry(name string, optional bool) builder {
	s := &connect.Schema{
		Type: connect.Struct, Optional: optional, Name: "io.debezium.data.geometry." + name, Version: 1, Doc: name,
		Fields: []connect.Field{
			{Name: "wkb", Schema: &connect.Schema{Type: connect.Bytes}},
			{Name: "srid", Schema: &connect.Schema{Type: connect.Int32, Optional: true}},
		},
	}
	return func(Options, int32) *Converter {
		return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
			wkb := make([]byte, hex.DecodedLen(len(b)))
			if _, err := hex.Decode(wkb, b); err != nil || len(wkb) < 9 {
				return connect.Value{}, errors.New("the text is not hexadecimal EWKB")
			}
			var order binary.ByteOrder = binary.BigEndian
			if wkb[0] != 0 {
				order = binary.LittleEndian
			}
			srid := connect.Value{}
			if order.Uint32(wkb[1:])&0x20000000 != 0 {
				srid = connect.Int(int64(int32(order.Uint32(wkb[5:]))))
			}
			return connect.Value{
				Kind: connect.KindStruct, Schema: s, List: []connect.Value{{Kind: connect.KindBytes, Data: wkb}, srid},
			}, nil
		}}
	}
}

// vector reads pgvector's [1,2,3].
func vector(t connect.Type, name string) builder {
	kind, size := connect.KindFloat64, 64
	if t == connect.Float32 {
		kind, size = connect.KindFloat32, 32
	}
	s := &connect.Schema{Type: connect.Array, Name: name, Version: 1, Items: &connect.Schema{Type: t}}
	return func(Options, int32) *Converter {
		return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
			inner, ok := bytes.CutPrefix(b, []byte("["))
			inner, ok2 := bytes.CutSuffix(inner, []byte("]"))
			if !ok || !ok2 {
				return connect.Value{}, errMalformed
			}
			v := connect.Value{Kind: connect.KindList}
			for item := range bytes.SplitSeq(inner, []byte(",")) {
				f, err := strconv.ParseFloat(string(item), size)
				if err != nil {
					return connect.Value{}, errMalformed
				}
				v.List = append(v.List, connect.Value{Kind: kind, Float: f})
			}
			return v, nil
		}}
	}
}
