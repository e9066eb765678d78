package java

import (
	"math"
	"strconv"
)

// AppendDouble writes the result of Double.toString since JDK 19 (Raffaello Giulietti's algorithm): the shortest
// decimal that is read back as d, with a digit on both sides of the point.
func AppendDouble(dst []byte, d float64) []byte { return appendFloating(dst, d, 64) }

// AppendFloat writes the result of Float.toString since JDK 19.
func AppendFloat(dst []byte, f float32) []byte { return appendFloating(dst, float64(f), 32) }

func appendFloating(dst []byte, d float64, bits int) []byte {
	switch {
	case math.IsNaN(d):
		return append(dst, "NaN"...)
	case math.IsInf(d, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(d, -1):
		return append(dst, "-Infinity"...)
	}
	if math.Signbit(d) {
		dst = append(dst, '-')
		d = -d
	}
	if d == 0 {
		return append(dst, "0.0"...)
	}
	digits, exponent := shortest(d, bits)
	switch {
	case exponent >= -3 && exponent < 0: // 0.00ddd
		dst = append(dst, "0.000"[:1-exponent]...)
		return append(dst, digits...)
	case exponent >= 0 && exponent < 7:
		for i := 0; i <= exponent || i < len(digits); i++ {
			if i == exponent+1 {
				dst = append(dst, '.')
			}
			if i < len(digits) {
				dst = append(dst, digits[i])
			} else {
				dst = append(dst, '0')
			}
		}
		if len(digits) <= exponent+1 {
			dst = append(dst, '.', '0')
		}
		return dst
	}
	dst = append(dst, digits[0], '.')
	if len(digits) == 1 {
		dst = append(dst, '0')
	}
	dst = append(dst, digits[1:]...)
	dst = append(dst, 'E')
	return strconv.AppendInt(dst, int64(exponent), 10)
}

// shortest returns the digits d1 d2 … and the exponent of d = d1.d2… × 10^exponent. As a second digit is printed in any
// case, Java takes the nearest of two digits even if one would do: Double.MIN_VALUE is 4.9E-324, not 5.0E-324.
func shortest(d float64, bits int) (digits []byte, exponent int) {
	text := strconv.AppendFloat(make([]byte, 0, 32), d, 'e', -1, bits)
	if text[1] == 'e' {
		two := strconv.AppendFloat(make([]byte, 0, 32), d, 'e', 1, bits)
		if same, err := strconv.ParseFloat(string(two), bits); err == nil && same == d && two[2] != '0' {
			text = two
		}
	}
	for i, c := range text {
		if c == 'e' {
			exponent, _ = strconv.Atoi(string(text[i+1:])) // as AppendFloat writes it
			break
		}
		if c != '.' {
			digits = append(digits, c)
		}
	}
	return digits, exponent
}
