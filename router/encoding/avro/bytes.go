package avro

import (
	"encoding/binary"
	"encoding/hex"
	"unicode/utf8"
)

// bytes encodes bytes and fixed: of a string whose code points up to U+00FF are the bytes, as Avro's JSON has it.
func (w *writer) bytes(n *node) *misfit {
	if n.logical == decimal && w.Peek() != '"' {
		token, m := w.token(n)
		if m != nil {
			return m
		}
		return w.decimal(n, token)
	}
	s, m := w.str(n)
	if m != nil {
		return m
	}
	if !w.asDefault {
		switch n.logical {
		case decimal:
			return w.decimal(n, s)
		case uuid:
			return w.uuidBytes(n, s)
		}
	}
	var ok bool
	if w.buf, ok = latin1(w.buf[:0], s); !ok {
		return refused(n, "a string with a character beyond U+00FF")
	}
	if n.kind == octets {
		w.dst = binary.AppendVarint(w.dst, int64(len(w.buf)))
	} else if len(w.buf) != n.size {
		return refused(n, "a string of another length")
	}
	w.dst = append(w.dst, w.buf...)
	return nil
}

func latin1(dst, s []byte) ([]byte, bool) {
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		if r > 0xff {
			return dst, false
		}
		dst, s = append(dst, byte(r)), s[size:]
	}
	return dst, true
}

const uuidForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

func isUUID(s []byte) bool {
	if len(s) != len(uuidForm) {
		return false
	}
	for i, c := range s {
		isHex := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
		if (uuidForm[i] == '-') != (c == '-') || c != '-' && !isHex {
			return false
		}
	}
	return true
}

func (w *writer) uuidBytes(n *node, s []byte) *misfit {
	if !isUUID(s) {
		return refused(n, "a string of another form")
	}
	w.buf = w.buf[:0]
	for _, c := range s {
		if c != '-' {
			w.buf = append(w.buf, c)
		}
	}
	w.dst, _ = hex.AppendDecode(w.dst, w.buf) // they are digits
	return nil
}
