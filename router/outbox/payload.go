package outbox

import (
	"encoding/hex"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// payloads makes the record's value.
type payloads struct {
	buf []byte
}

// payloadOf returns the payload column's text as it is, except for bytea, which Postgres prints as `\x` and hex digits
// (docs 8.4.1) and which is decoded. nil stands for NULL.
func (p *payloads) payloadOf(l *rowPlan, row pgoutput.Tuple) ([]byte, *router.RowError) {
	text, err := l.Text(row, l.payload)
	if err != nil || text == nil || l.payload.Oid != layout.OIDBytea || row[l.payload.Index].Kind == pgoutput.Binary {
		return text, err
	}
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
		return nil, l.badBytea(row)
	}
	digits := text[2:]
	if cap(p.buf) > layout.MaxKeptBuffer {
		p.buf = nil
	}
	n := hex.DecodedLen(len(digits))
	p.buf = slices.Grow(p.buf[:0], n)[:n]
	if _, err := hex.Decode(p.buf, digits); err != nil {
		return nil, l.badBytea(row)
	}
	if n == 0 {
		return layout.Empty, nil
	}
	return p.buf, nil
}

func (l *rowPlan) badBytea(row pgoutput.Tuple) *router.RowError {
	return l.Refuse(row, router.BadBytea, l.payload.Name, "the bytea text is not in hex format",
		"Let the connector's role use the default format: ALTER ROLE ... SET bytea_output = 'hex'.")
}
