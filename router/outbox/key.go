package outbox

import (
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// key is the aggregate id, or the columns of Config.KeyColumns: one column's text, or several columns' texts as a JSON
// array, which is the same for no two different rows: joined by a character the columns could hold, they might be.
func (r *Router) key(l *rowPlan, row pgoutput.Tuple) ([]byte, *router.RowError) {
	switch len(l.keys) {
	case 0:
		return l.keyPart(row, l.aggregateID)
	case 1:
		return l.keyPart(row, l.keys[0])
	}
	start := len(r.buf)
	for i, f := range l.keys {
		text, err := l.keyPart(row, f)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			r.buf = append(r.buf, '[')
		} else {
			r.buf = append(r.buf, ',')
		}
		r.buf = connect.AppendQuoted(r.buf, text)
	}
	r.buf = append(r.buf, ']')
	return r.buf[start:len(r.buf):len(r.buf)], nil
}

func (l *rowPlan) keyPart(row pgoutput.Tuple, f layout.Field) ([]byte, *router.RowError) {
	text, err := l.Text(row, f)
	if err == nil && text == nil {
		err = l.Refuse(row, router.NullKey, f.Name,
			"the column is NULL and the key is built from it, so the order of the aggregate's events would be lost",
			"Declare the column NOT NULL; the empty string is a legal key.")
	}
	return text, err
}
