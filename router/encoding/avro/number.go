package avro

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
)

// whole encodes an int or a long, of a number or of a string with its digits, and a time also of its text.
func (w *writer) whole(n *node) *misfit {
	var token []byte
	if w.Peek() == '"' {
		s, m := w.str(n)
		if m != nil {
			return m
		}
		if n.logical != plain {
			v, ok := w.temporal(n, s)
			if !ok {
				return refused(n, "a string of another form")
			}
			w.dst = binary.AppendVarint(w.dst, v)
			return nil
		}
		token = s
	} else {
		var m *misfit
		if token, m = w.token(n); m != nil {
			return m
		}
	}
	v, ok := w.int64(token, n.kind == integer)
	if !ok {
		return refused(n, "a value that is not a whole number, or out of its range")
	}
	w.dst = binary.AppendVarint(w.dst, v)
	return nil
}

// token reads the number at the cursor.
func (w *writer) token(n *node) ([]byte, *misfit) {
	if c := w.Peek(); c != '-' && (c < '0' || c > '9') {
		return nil, w.expected(n)
	}
	start := w.Pos
	if w.Value(0) != nil {
		return nil, notJSON()
	}
	return w.Src[start:w.Pos], nil
}

// int64 is the value of a JSON number's text, exactly.
func (w *writer) int64(token []byte, short bool) (int64, bool) {
	negative, digits, ok := w.scaled(token, 0, 19)
	if !ok {
		return 0, false
	}
	u := uint64(0) // 19 digits fit
	for _, c := range digits {
		u = u*10 + uint64(c-'0')
	}
	limit := uint64(math.MaxInt64)
	if short {
		limit = math.MaxInt32
	}
	switch {
	case negative && u <= limit+1:
		return -int64(u), true //nolint:gosec // the smallest number is its own negative
	case u <= limit:
		return int64(u), !negative
	}
	return 0, false
}

// scaled is the value of a JSON number's text times 10 to the power of scale, as digits without leading zeros, if it is
// whole and has at most so many. They live until the next call.
func (w *writer) scaled(token []byte, scale, most int) (negative bool, digits []byte, ok bool) {
	rest := token
	if len(rest) > 0 && rest[0] == '-' {
		negative, rest = true, rest[1:]
	}
	mantissa, exponent := rest, 0
	if i := bytes.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		if exponent, ok = power(rest[i+1:]); !ok {
			return false, nil, false
		}
	}
	before, after, point := bytes.Cut(mantissa, []byte{'.'})
	if len(before) == 0 || point && len(after) == 0 {
		return false, nil, false
	}
	w.buf = append(append(w.buf[:0], before...), after...)
	for _, c := range w.buf {
		if c < '0' || c > '9' {
			return false, nil, false
		}
	}
	digits = bytes.TrimLeft(w.buf, "0")
	if len(digits) == 0 {
		return negative, digits, true
	}
	shift := exponent + scale - len(after)
	for ; shift < 0 && len(digits) > 0 && digits[len(digits)-1] == '0'; shift++ {
		digits = digits[:len(digits)-1]
	}
	if shift < 0 || len(digits) > most || shift > most-len(digits) {
		return false, nil, false
	}
	for ; shift > 0; shift-- {
		digits = append(digits, '0') // the digits after them in w.buf are not needed any more
	}
	return negative, digits, true
}

// power is an exponent, of which only the sign matters beyond a million.
func power(text []byte) (int, bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 1_000_000_000)
	}
	if negative {
		n = -n
	}
	return n, len(text) > 0
}

// decimal encodes a number, or a string with its digits.
func (w *writer) decimal(n *node, token []byte) *misfit {
	negative, digits, ok := w.scaled(token, n.scale, n.precision)
	if !ok {
		return refused(n, "a value with more digits, or none")
	}
	var room [8]byte
	value := room[:]
	const short = 18 // digits that an int64 holds
	if len(digits) <= short {
		v := int64(0)
		for _, c := range digits {
			v = v*10 + int64(c-'0')
		}
		if negative {
			v = -v
		}
		binary.BigEndian.PutUint64(value, uint64(v)) //nolint:gosec // two's complement
	} else {
		value = complement(negative, digits)
	}
	negative = value[0]&0x80 != 0
	fill := byte(0)
	if negative {
		fill = 0xff
	}
	for len(value) > 1 && value[0] == fill && (value[1]&0x80 != 0) == negative {
		value = value[1:]
	}
	if n.kind == octets {
		w.dst = binary.AppendVarint(w.dst, int64(len(value)))
	} else if len(value) > n.size {
		return refused(n, "a value with more digits, or none")
	}
	for i := len(value); n.kind == fixed && i < n.size; i++ {
		w.dst = append(w.dst, fill)
	}
	w.dst = append(w.dst, value...)
	return nil
}

// complement is a number of many digits in two's complement.
func complement(negative bool, digits []byte) []byte {
	v, _ := new(big.Int).SetString(string(digits), 10)
	size := v.BitLen()/8 + 1
	if negative {
		v.Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*size)), v) //nolint:gosec // some hundred
	}
	return v.FillBytes(make([]byte, size))
}

func (w *writer) floating(n *node) *misfit {
	v := 0.0
	if w.Peek() == '"' {
		s, m := w.str(n)
		if m != nil {
			return m
		}
		ok := false
		if v, ok = special(s); !ok {
			return refused(n, "a string")
		}
	} else {
		token, m := w.token(n)
		if m != nil {
			return m
		}
		bits := 64
		if n.kind == float {
			bits = 32
		}
		ok := false
		if v, ok = simple(token); !ok || bits == 32 {
			var err error
			if v, err = strconv.ParseFloat(string(token), bits); err != nil {
				return refused(n, "a number out of its range")
			}
		}
	}
	if n.kind == float {
		w.dst = binary.LittleEndian.AppendUint32(w.dst, math.Float32bits(float32(v)))
	} else {
		w.dst = binary.LittleEndian.AppendUint64(w.dst, math.Float64bits(v))
	}
	return nil
}

// special are the values that JSON has no numbers for, as Avro's JSON writes them.
func special(s []byte) (float64, bool) {
	switch string(s) {
	case "NaN":
		return math.NaN(), true
	case "Infinity", "INF":
		return math.Inf(1), true
	case "-Infinity", "-INF":
		return math.Inf(-1), true
	}
	return 0, false
}

// simple is the value of a number with at most 15 digits and no exponent: of two numbers that a float64 holds exactly,
// the quotient is rounded once, and right. strconv allocates.
func simple(token []byte) (float64, bool) {
	mantissa, divisor, point, count := 0.0, 1.0, false, 0
	for i, c := range token {
		switch {
		case c == '-' && i == 0:
		case c == '.' && !point:
			point = true
		case c >= '0' && c <= '9' && count < 15:
			mantissa = mantissa*10 + float64(c-'0')
			count++
			if point {
				divisor *= 10
			}
		default:
			return 0, false
		}
	}
	if token[0] == '-' {
		mantissa = -mantissa // a zero keeps its sign
		if mantissa == 0 {
			mantissa = math.Copysign(0, -1)
		}
	}
	return mantissa / divisor, true
}
