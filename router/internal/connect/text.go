package connect

import (
	"encoding/base64"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/router/internal/java"
)

// AppendHeader writes a value other than null as SimpleHeaderConverter does (Values.convertToString). Embedded ones, in
// lists, maps and structs, have their strings in quotes.
func AppendHeader(dst []byte, v *Value) []byte { return appendHeader(dst, v, false) }

func appendHeader(dst []byte, v *Value, embedded bool) []byte {
	switch v.Kind {
	case KindNull:
		return append(dst, "null"...)
	case KindText:
		if embedded {
			return appendEscaped(dst, v.Data)
		}
		return append(dst, v.Data...)
	case KindDate:
		return append(dst, v.Data...)
	case KindBytes:
		if embedded {
			return appendJSONBase64(dst, v.Data)
		}
		return base64.StdEncoding.AppendEncode(dst, v.Data)
	case KindList:
		dst = append(dst, '[')
		for i := range v.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendHeader(dst, &v.List[i], true)
		}
		return append(dst, ']')
	case KindMap:
		dst = append(dst, '{')
		for i := 0; i+1 < len(v.List); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendHeader(dst, &v.List[i], true), ':')
			dst = appendHeader(dst, &v.List[i+1], true)
		}
		return append(dst, '}')
	case KindStruct:
		dst = append(dst, '{')
		for i := range v.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendEscaped(dst, v.Schema.Fields[i].Name), ':')
			dst = appendHeader(dst, &v.List[i], true)
		}
		return append(dst, '}')
	}
	return appendNumber(dst, v)
}

// appendEscaped escapes backslashes and quotes only, so the result is not JSON for every string.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// AppendString writes a value that is not null as StringConverter does, by toString. Bytes are written as they are on
// their own, and as base64 within other values: Java's text for a buffer has its address, not its content.
func AppendString(dst []byte, v *Value) []byte {
	switch v.Kind {
	case KindText, KindBytes, KindDate:
		return append(dst, v.Data...)
	case KindList:
		dst = append(dst, '[')
		for i := range v.List {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendNested(dst, &v.List[i])
		}
		return append(dst, ']')
	case KindMap:
		dst = append(dst, '{')
		for i := 0; i+1 < len(v.List); i += 2 {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(appendNested(dst, &v.List[i]), '=')
			dst = appendNested(dst, &v.List[i+1])
		}
		return append(dst, '}')
	case KindStruct: // org.apache.kafka.connect.data.Struct leaves out fields that are null
		dst = append(dst, "Struct{"...)
		first := true
		for i := range v.List {
			if v.List[i].Kind == KindNull {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(dst, v.Schema.Fields[i].Name...), '=')
			dst = appendNested(dst, &v.List[i])
		}
		return append(dst, '}')
	}
	return appendNumber(dst, v)
}

func appendNested(dst []byte, v *Value) []byte {
	switch v.Kind {
	case KindNull:
		return append(dst, "null"...)
	case KindBytes:
		return base64.StdEncoding.AppendEncode(dst, v.Data)
	}
	return AppendString(dst, v)
}

func appendNumber(dst []byte, v *Value) []byte {
	switch v.Kind {
	case KindBool:
		return strconv.AppendBool(dst, v.Int != 0)
	case KindFloat32:
		return java.AppendFloat(dst, float32(v.Float))
	case KindFloat64:
		return java.AppendDouble(dst, v.Float)
	case KindDecimal:
		d, _ := java.ParseDecimal(v.Data) // checked when the value was made
		return d.Append(dst)
	}
	return strconv.AppendInt(dst, v.Int, 10)
}
