package router

import (
	"encoding/hex"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// maxKeptBuffer is the largest decoding buffer kept from row to row, so that one huge row doesn't hold its
// memory for ever.
const maxKeptBuffer = 1 << 20

// payloads makes the record's value.
type payloads struct {
	buf []byte
}

// of returns the payload column's text as it is, except for bytea, which Postgres prints as `\x` and hex digits
// (docs 8.4.1) and which is decoded. nil stands for NULL.
func (p *payloads) of(l *layout, row pgoutput.Tuple) ([]byte, *RowError) {
	text, err := l.text(row, l.payload)
	if err != nil || text == nil || l.payload.oid != oidBytea || row[l.payload.index].Kind == pgoutput.Binary {
		return text, err
	}
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
		return nil, l.badBytea(row)
	}
	digits := text[2:]
	if cap(p.buf) > maxKeptBuffer {
		p.buf = nil
	}
	n := hex.DecodedLen(len(digits))
	p.buf = slices.Grow(p.buf[:0], n)[:n]
	if _, err := hex.Decode(p.buf, digits); err != nil {
		return nil, l.badBytea(row)
	}
	if n == 0 {
		return empty, nil
	}
	return p.buf, nil
}

func (l *layout) badBytea(row pgoutput.Tuple) *RowError {
	return l.refuse(row, BadBytea, l.payload.name, "the bytea text isn't in hex format",
		"Let the connector's role use the default format: ALTER ROLE ... SET bytea_output = 'hex'.")
}
