package fault

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Printable replaces characters that a terminal or a browser would obey instead of showing them: names come from
// servers, rows and clients.
func Printable(s string) string {
	return strings.Map(printable, s)
}

func printable(r rune) rune {
	if commands(r) {
		return '�'
	}
	return r
}

// commands reports whether the character is a control character, or one that changes the direction of the text after it
// (Unicode, UAX 9), by which a line reads as another one.
func commands(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// PrintableLines is Printable for a text of several lines, which keeps their ends and tabs.
func PrintableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, s)
}

// Escaped returns JSON, or a line of the log, in which such characters are written as JSON's escapes. Only the
// characters of a JSON text that its encoder lets through are looked at: those below space are escaped already, or are
// white space. The text means the same.
func Escaped(text []byte) []byte {
	at := firstCommand(text)
	if at < 0 {
		return text
	}
	var out bytes.Buffer
	for ; at >= 0; at = firstCommand(text) {
		r, size := utf8.DecodeRune(text[at:])
		out.Write(text[:at])
		fmt.Fprintf(&out, `\u%04x`, r)
		text = text[at+size:]
	}
	out.Write(text)
	return out.Bytes()
}

// firstCommand returns the index of the first such character that is not ASCII, or of DEL; -1 if there is none.
func firstCommand(text []byte) int {
	for i := 0; i < len(text); {
		if text[i] < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if commands(r) {
			return i
		}
		i += size
	}
	return -1
}

// Escaping writes what Escaped returns of each Write, which has to be whole.
type Escaping struct{ W io.Writer }

func (e Escaping) Write(text []byte) (int, error) {
	if _, err := e.W.Write(Escaped(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
