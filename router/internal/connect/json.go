package connect

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/router/internal/java"
)

// AppendJSON writes a value as JsonConverter does with schemas.enable=false and decimal.format=BASE64.
func AppendJSON(dst []byte, v *Value) []byte {
	switch v.Kind {
	case KindBool:
		return strconv.AppendBool(dst, v.Int != 0)
	case KindInt, KindDate:
		return strconv.AppendInt(dst, v.Int, 10)
	case KindFloat32:
		return appendJSONFloat(dst, v.Float, 32)
	case KindFloat64:
		return appendJSONFloat(dst, v.Float, 64)
	case KindDecimal:
		d, _ := java.ParseDecimal(v.Data) // checked when the value was made
		return appendJSONBase64(dst, d.Unscaled())
	case KindText:
		return AppendQuoted(dst, v.Data)
	case KindBytes:
		return appendJSONBase64(dst, v.Data)
	case KindList:
		dst = append(dst, '[')
		for i := range v.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, &v.List[i])
		}
		return append(dst, ']')
	case KindMap:
		dst = append(dst, '{')
		for i := 0; i+1 < len(v.List); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendQuoted(dst, v.List[i].Data), ':')
			dst = AppendJSON(dst, &v.List[i+1])
		}
		return append(dst, '}')
	case KindStruct:
		dst = append(dst, '{')
		for i := range v.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendQuoted(dst, v.Schema.Fields[i].Name), ':')
			dst = AppendJSON(dst, &v.List[i])
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// appendJSONFloat quotes a value that is not a JSON number, as Jackson does.
func appendJSONFloat(dst []byte, f float64, bits int) []byte {
	special := math.IsNaN(f) || math.IsInf(f, 0)
	if special {
		dst = append(dst, '"')
	}
	if bits == 32 {
		dst = java.AppendFloat(dst, float32(f))
	} else {
		dst = java.AppendDouble(dst, f)
	}
	if special {
		dst = append(dst, '"')
	}
	return dst
}

func appendJSONBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

const hexDigits = "0123456789ABCDEF"

// AppendQuoted writes a JSON string as Jackson's generator of UTF-8 does: characters beyond the BMP as an escaped pair
// of surrogates, control characters escaped with upper-case digits, and nothing else escaped but quote and backslash.
func AppendQuoted[T string | []byte](dst []byte, s T) []byte { return appendQuoted(dst, s, true) }

func appendQuoted[T string | []byte](dst []byte, s T, escapeSurrogates bool) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && (c < 0xf0 || !escapeSurrogates) {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		if c >= 0xf0 {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+4, len(s))]))
			if size > 1 {
				r -= 0x10000
				dst = appendEscape(appendEscape(dst, 0xd800+r>>10), 0xdc00+r&0x3ff)
			} else {
				dst = append(dst, c)
			}
			i += size
			start = i
			continue
		}
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = appendEscape(dst, rune(c))
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// AppendJSONText writes a map as text for a string value. Into text, unlike into bytes, Jackson's generator puts
// characters beyond the BMP as they are.
func AppendJSONText(dst []byte, v *Value) []byte {
	dst = append(dst, '{')
	for i := 0; i+1 < len(v.List); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, v.List[i].Data, false), ':')
		if value := &v.List[i+1]; value.Kind == KindNull {
			dst = append(dst, "null"...)
		} else {
			dst = appendQuoted(dst, value.Data, false)
		}
	}
	return append(dst, '}')
}
