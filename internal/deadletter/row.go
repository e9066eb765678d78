package deadletter

import (
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Row is a row of the table without its payload, as a letter keeps it.
type Row struct {
	OID     uint32   `json:"oid"`
	Schema  string   `json:"schema"`
	Table   string   `json:"table"`
	Columns []Column `json:"columns"`

	// Incomplete: columns were left out, or the row has another number of columns than its table.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Column is one value of a Row.
type Column struct {
	Name     string     `json:"name"`
	Type     uint32     `json:"type"` // OID
	Modifier int32      `json:"modifier"`
	Key      bool       `json:"key,omitempty"` // part of the replica identity
	Kind     columnKind `json:"kind,omitempty"`
	Text     string     `json:"text,omitempty"`
	Data     []byte     `json:"data,omitempty"` // of binary and bytes: base64
}

type columnKind string

const (
	columnText      columnKind = ""
	columnNull      columnKind = "null"
	columnUnchanged columnKind = "unchanged" // the server did not send it
	columnBinary    columnKind = "binary"
	columnBytes     columnKind = "bytes"          // text that is not UTF-8
	columnCut       columnKind = "cut"            // too long
	payloadText     columnKind = "payload"        // the letter's value
	payloadHex      columnKind = "payload_hex"    // the letter's value, bytea that Postgres wrote as hexadecimal digits
	payloadBinary   columnKind = "payload_binary" // the letter's value, which came in binary format
)

const oidBytea = 17 // src/include/catalog/pg_type.dat

// newRow takes a row apart. value is its payload, nil if that is NULL or absent; it belongs to the caller.
func newRow(rel *pgoutput.Relation, tuple pgoutput.Tuple, payload string) (row *Row, value []byte) {
	row = &Row{
		OID: rel.OID, Schema: clipString(rel.Namespace, maxTable), Table: clipString(rel.Name, maxTable),
		Incomplete: len(tuple) != len(rel.Columns),
	}
	size := 0
	for i := range min(len(tuple), len(rel.Columns)) {
		c := columnOf(&rel.Columns[i])
		if c.Name == payload {
			value = c.payload(tuple[i])
		} else {
			c.setValue(tuple[i])
		}
		if size += len(c.Name) + len(c.Text) + len(c.Data) + 32; size > maxRow {
			row.Incomplete = true
			if c.Kind != payloadText && c.Kind != payloadHex && c.Kind != payloadBinary {
				size -= len(c.Name) + len(c.Text) + len(c.Data) + 32
				continue
			}
		}
		row.Columns = append(row.Columns, c)
	}
	return row, value
}

func columnOf(c *pgoutput.Column) Column {
	return Column{Name: c.Name, Type: c.TypeOID, Modifier: c.Modifier, Key: c.Key}
}

// setValue fills the column with any value but the payload.
func (c *Column) setValue(v pgoutput.Value) {
	switch {
	case v.Kind == pgoutput.Null:
		c.Kind = columnNull
	case v.Kind == pgoutput.Unchanged:
		c.Kind = columnUnchanged
	case v.Kind == pgoutput.Cut || len(v.Data) > maxColumn:
		c.Kind = columnCut
	case v.Kind == pgoutput.Binary:
		c.Kind, c.Data = columnBinary, append([]byte(nil), v.Data...)
	case !utf8.Valid(v.Data):
		c.Kind, c.Data = columnBytes, append([]byte(nil), v.Data...)
	default:
		c.Text = string(v.Data)
	}
}

// payload returns the bytes that become the letter's value: the bytes that the application wrote.
func (c *Column) payload(v pgoutput.Value) []byte {
	switch v.Kind {
	case pgoutput.Null:
		c.Kind = columnNull
		return nil
	case pgoutput.Unchanged:
		c.Kind = columnUnchanged
		return nil
	case pgoutput.Cut:
		c.Kind = columnCut
		return nil
	case pgoutput.Binary:
		c.Kind = payloadBinary
	default:
		c.Kind = payloadText
		if c.Type == oidBytea && len(v.Data) >= 2 && v.Data[0] == '\\' && v.Data[1] == 'x' {
			out := make([]byte, hex.DecodedLen(len(v.Data)-2))
			if _, err := hex.Decode(out, v.Data[2:]); err == nil {
				c.Kind = payloadHex
				return out
			}
		}
	}
	return append(make([]byte, 0, len(v.Data)), v.Data...)
}

// Restore returns the row as the log gave it, for the router. The error names a column that the letter does not hold.
func (r *Row) Restore(value []byte) (*pgoutput.Relation, pgoutput.Tuple, error) {
	rel := &pgoutput.Relation{
		OID: r.OID, Namespace: r.Schema, Name: r.Table, Columns: make([]pgoutput.Column, len(r.Columns)),
	}
	tuple := make(pgoutput.Tuple, len(r.Columns))
	for i := range r.Columns {
		c := &r.Columns[i]
		rel.Columns[i] = pgoutput.Column{Name: c.Name, TypeOID: c.Type, Modifier: c.Modifier, Key: c.Key}
		v := &tuple[i]
		v.Kind = pgoutput.Text
		switch c.Kind {
		case columnText:
			v.Data = []byte(c.Text)
		case columnBytes:
			v.Data = c.Data
		case columnNull:
			v.Kind = pgoutput.Null
		case columnUnchanged:
			v.Kind = pgoutput.Unchanged
		case columnBinary:
			v.Kind, v.Data = pgoutput.Binary, c.Data
		case payloadText:
			v.Data = value
		case payloadHex:
			v.Data = hex.AppendEncode([]byte(`\x`), value)
		case payloadBinary:
			v.Kind, v.Data = pgoutput.Binary, value
		case columnCut:
			return nil, nil, fmt.Errorf("column %q was too long for the dead letter", c.Name)
		default:
			return nil, nil, fmt.Errorf("column %q is of the unknown kind %q", c.Name, c.Kind)
		}
	}
	return rel, tuple, nil
}

// oidText is the type of a column that a correction adds.
const oidText = 25

// Correct gives a column another value, nil for NULL, before the row is restored. It adds a column that the row lacks.
func (r *Row) Correct(name string, value *string) {
	i := 0
	for i < len(r.Columns) && r.Columns[i].Name != name {
		i++
	}
	if i == len(r.Columns) {
		r.Columns = append(r.Columns, Column{Name: name, Type: oidText, Modifier: -1})
	}
	c := &r.Columns[i]
	c.Kind, c.Text, c.Data = columnNull, "", nil
	if value != nil {
		c.Kind, c.Text = columnText, *value
	}
}

// Complete reports whether the letter holds the whole row. Otherwise a retry needs the table, or a value for each
// column that is cut.
func (r *Row) Complete() bool {
	for i := range r.Columns {
		if r.Columns[i].Kind == columnCut {
			return false
		}
	}
	return !r.Incomplete
}

// RowOf is a row that was read from the table again.
func RowOf(rel *pgoutput.Relation, tuple pgoutput.Tuple) *Row {
	row := &Row{OID: rel.OID, Schema: rel.Namespace, Table: rel.Name}
	for i := range rel.Columns {
		c := columnOf(&rel.Columns[i])
		c.Text = string(tuple[i].Data)
		if tuple[i].Kind == pgoutput.Null {
			c.Kind = columnNull
		}
		row.Columns = append(row.Columns, c)
	}
	return row
}
