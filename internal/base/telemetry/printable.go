package telemetry

import (
	"bytes"
	"fmt"
	"io"
)

// printable escapes the control characters that the encoders leave as they are: DEL, and U+0080 to U+009F, which some
// terminals obey (U+009B begins a sequence like ESC does). Names and messages of servers may hold them. In UTF-8 such a
// character is the byte C2 and another one, and C2 is never the second byte of another character.
type printable struct{ w io.Writer }

func (p printable) Write(line []byte) (int, error) {
	at := unprintable(line)
	if at < 0 {
		return p.w.Write(line)
	}
	var out bytes.Buffer
	rest := line
	for ; at >= 0; at = unprintable(rest) {
		out.Write(rest[:at])
		if rest[at] == del {
			fmt.Fprintf(&out, `\u%04x`, del)
			rest = rest[at+1:]
			continue
		}
		fmt.Fprintf(&out, `\u%04x`, rest[at+1])
		rest = rest[at+2:]
	}
	out.Write(rest)
	if _, err := p.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(line), nil
}

const del = 0x7f

// unprintable returns the index of the first such character, -1 if there is none.
func unprintable(line []byte) int {
	for i, b := range line {
		if b == del || b == 0xc2 && i+1 < len(line) && line[i+1] < 0xa0 {
			return i
		}
	}
	return -1
}
