package avro

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errEncoded is the error for bytes that do not have the form of the schema.
var errEncoded = errors.New("the bytes are not a value of the schema")

// JSON returns the document of encoded bytes, for people. Append makes the same bytes of it.
func (s *Schema) JSON(encoded []byte) ([]byte, error) {
	r := reader{src: encoded}
	out := r.value(nil, s.root, 0)
	if r.bad || len(r.src) > 0 {
		return nil, errEncoded
	}
	return out, nil
}

// reader reads from the front of src. The first thing that does not fit makes it bad for good.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.bad, r.src = true, nil
		return nil
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) long() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.take(-1)
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) value(dst []byte, n *node, depth int) []byte {
	if r.bad || depth > maxDepth || len(dst) > maxEncoded {
		r.take(-1)
		return dst
	}
	switch n.kind {
	case null:
		return append(dst, "null"...)
	case boolean:
		b := r.take(1)
		return strconv.AppendBool(dst, len(b) > 0 && b[0] != 0)
	case integer, long:
		return appendWhole(dst, n, r.long())
	case float:
		if b := r.take(4); b != nil {
			return appendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32)
		}
		return dst
	case double:
		if b := r.take(8); b != nil {
			return appendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)), 64)
		}
		return dst
	case text:
		return appendText(dst, r.take(int(r.long())))
	case octets:
		return appendBytes(dst, n, r.take(int(r.long())))
	case fixed:
		return appendBytes(dst, n, r.take(n.size))
	case enum:
		if i := r.long(); i >= 0 && i < int64(len(n.symbols)) {
			return appendText(dst, []byte(n.symbols[i]))
		}
		r.take(-1)
		return dst
	case record:
		return r.record(dst, n, depth)
	case array, mapping:
		return r.blocks(dst, n, depth)
	}
	return r.union(dst, n, depth)
}

func (r *reader) record(dst []byte, n *node, depth int) []byte {
	dst = append(dst, '{')
	for i := range n.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, []byte(n.fields[i].name)), ':')
		dst = r.value(dst, n.fields[i].node, depth+1)
	}
	return append(dst, '}')
}

func (r *reader) blocks(dst []byte, n *node, depth int) []byte {
	open, end := byte('['), byte(']')
	if n.kind == mapping {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	first := true
	for count := r.long(); count != 0 && !r.bad; count = r.long() {
		if count < 0 { // with the size of the block in bytes
			count = -count
			r.long()
		}
		for ; count > 0 && !r.bad; count-- {
			if !first {
				dst = append(dst, ',')
			}
			if first = false; n.kind == mapping {
				dst = append(appendText(dst, r.take(int(r.long()))), ':')
			}
			dst = r.value(dst, n.items, depth+1)
		}
	}
	return append(dst, end)
}

// union names the branch, unless the value alone shows it.
func (r *reader) union(dst []byte, n *node, depth int) []byte {
	i := r.long()
	if i < 0 || i >= int64(len(n.branches)) {
		r.take(-1)
		return dst
	}
	b := n.branches[i]
	if b.kind == null || n.null >= 0 && len(n.branches) == 2 && b.kind != record && b.kind != mapping {
		return r.value(dst, b, depth+1)
	}
	dst = append(appendText(append(dst, '{'), []byte(b.branch)), ':')
	return append(r.value(dst, b, depth+1), '}')
}

func appendText(dst, s []byte) []byte {
	quoted, _ := marshal(string(s)) // a string is always JSON
	return append(dst, strings.TrimSuffix(string(quoted), "\n")...)
}

func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

func appendWhole(dst []byte, n *node, v int64) []byte {
	form, t := "", time.Time{}
	switch n.unit {
	case int64(time.Millisecond):
		t = time.UnixMilli(v).UTC()
	case int64(time.Microsecond):
		t = time.UnixMicro(v).UTC()
	case int64(time.Nanosecond):
		t = time.Unix(0, v).UTC()
	}
	switch n.logical {
	case date:
		form, t = time.DateOnly, time.Unix(0, 0).UTC().AddDate(0, 0, int(v))
	case timeOfDay:
		form = "15:04:05.999999999"
	case local:
		form = "2006-01-02T15:04:05.999999999"
	case instant:
		form = time.RFC3339Nano
	}
	if form == "" || t.Year() < 0 || t.Year() > 9999 || n.logical == timeOfDay && (v < 0 || t.Unix() >= 24*60*60) {
		return strconv.AppendInt(dst, v, 10)
	}
	return append(t.AppendFormat(append(dst, '"'), form), '"')
}

func appendBytes(dst []byte, n *node, b []byte) []byte {
	switch n.logical {
	case decimal:
		return appendDecimal(dst, b, n.scale)
	case uuid:
		if len(b) == 16 {
			h := hex.EncodeToString(b)
			return appendText(dst, []byte(h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:]))
		}
	}
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return appendText(dst, []byte(string(runes)))
}

// appendDecimal writes a number with as many decimals as the type has.
func appendDecimal(dst, b []byte, scale int) []byte {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b)))) //nolint:gosec // of a slice
		dst = append(dst, '-')
		v.Neg(v)
	}
	digits := v.Append(nil, 10)
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = slices.Concat([]byte(strings.Repeat("0", missing)), digits)
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-scale:]...)
	}
	return dst
}
