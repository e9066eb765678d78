package java

import (
	"math/big"
	"strconv"
)

// Decimal is a BigDecimal: unscaled × 10^-scale.
type Decimal struct {
	negative bool
	digits   []byte // of the unscaled value, without leading zeros; "0" for zero
	Scale    int
}

// ParseDecimal reads plain decimal text, such as Postgres prints for numeric. The scale is the number of digits after
// the point.
func ParseDecimal(text []byte) (Decimal, bool) {
	var d Decimal
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		d.negative = text[0] == '-'
		text = text[1:]
	}
	d.digits = make([]byte, 0, len(text))
	point := -1
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			if len(d.digits) > 0 || c != '0' {
				d.digits = append(d.digits, c)
			}
		case c == '.' && point < 0:
			point = i
		default:
			return Decimal{}, false
		}
	}
	if point >= 0 {
		d.Scale = len(text) - point - 1
	}
	if len(text) == 0 || len(text) == 1 && point == 0 {
		return Decimal{}, false
	}
	if len(d.digits) == 0 {
		d.digits, d.negative = append(d.digits, '0'), false
	}
	return d, true
}

// Zero reports whether the value is 0.
func (d Decimal) Zero() bool { return d.digits[0] == '0' }

// StripTrailingZeros is BigDecimal's, followed by setScale(0) if the scale would be negative.
func (d Decimal) StripTrailingZeros() Decimal {
	if d.Zero() {
		d.Scale = 0
		return d
	}
	for d.Scale > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
		d.Scale--
	}
	return d
}

// AppendPlain writes the result of BigDecimal.toPlainString, for a scale from 0.
func (d Decimal) AppendPlain(dst []byte) []byte {
	if d.negative {
		dst = append(dst, '-')
	}
	whole := len(d.digits) - d.Scale
	if whole <= 0 {
		dst = append(dst, '0')
		if d.Scale > 0 {
			dst = append(dst, '.')
		}
		for ; whole < 0; whole++ {
			dst = append(dst, '0')
		}
		return append(dst, d.digits...)
	}
	dst = append(dst, d.digits[:whole]...)
	if d.Scale > 0 {
		dst = append(append(dst, '.'), d.digits[whole:]...)
	}
	return dst
}

// Append writes the result of BigDecimal.toString: an exponent if the first digit is more than six places after the
// point.
func (d Decimal) Append(dst []byte) []byte {
	adjusted := len(d.digits) - 1 - d.Scale
	if adjusted >= -6 {
		return d.AppendPlain(dst)
	}
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.digits[0])
	if len(d.digits) > 1 {
		dst = append(append(dst, '.'), d.digits[1:]...)
	}
	dst = append(dst, 'E')
	return strconv.AppendInt(dst, int64(adjusted), 10)
}

// Unscaled is BigInteger.toByteArray of the unscaled value: two's complement, big endian, as short as possible.
func (d Decimal) Unscaled() []byte {
	n, _ := new(big.Int).SetString(string(d.digits), 10)
	if !d.negative {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	// -n is the complement of n-1, which has a leading zero bit if n-1 fits.
	b := n.Sub(n, big.NewInt(1)).Bytes()
	if len(b) == 0 || b[0]&0x80 != 0 {
		b = append([]byte{0}, b...)
	}
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

// Float64 is BigDecimal.doubleValue.
func (d Decimal) Float64() float64 {
	f, _ := strconv.ParseFloat(string(d.AppendPlain(nil)), 64) // out of range: infinity, as in Java
	return f
}
