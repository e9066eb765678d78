// Package layout finds the parts of an event in the rows of one table. Both presets build on it.
package layout

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Table is the layout of one relation, as any preset needs it.
type Table struct {
	Rel   *pgoutput.Relation
	Name  string
	width int

	ID, Timestamp Field

	PerSecond int64 // unit of a Timestamp that counts from 1970; 0: it is text in DateStyle ISO

	Missing *router.RowError // set if a required column is missing: no row of this relation can be routed

	lastTime  []byte // the last timestamp that was read, for rows of one transaction nearly always have the same
	lastMilli int64
}

// Of returns the layout of a relation, in which no column has a role yet.
func Of(rel *pgoutput.Relation) Table {
	return Table{Rel: rel, Name: rel.Namespace + "." + rel.Name, width: len(rel.Columns)}
}

// Field is a column of one relation; Index is -1 if the table has no such column.
type Field struct {
	Index int
	Name  string
	Oid   uint32
}

// Find returns the named column; an empty name, as one the table does not have, gives none.
func (l *Table) Find(name string) Field {
	f := Field{Index: -1, Name: name}
	if name == "" {
		return f
	}
	if f.Index = l.Rel.Column(name); f.Index >= 0 {
		f.Oid = l.Rel.Columns[f.Index].TypeOID
	}
	return f
}

// Require makes all rows of the relation bad if the relation lacks a required column.
func (l *Table) Require(needs []router.Need) {
	for i := range needs {
		n := &needs[i]
		if !n.Required || l.Rel.Column(n.Column) >= 0 {
			continue
		}
		l.Missing = &router.RowError{
			Reason: router.MissingColumn,
			Table:  l.Name,
			Column: n.Column,
			Detail: "the table has no such column, or the publication does not send it; " + n.Purpose,
			Remedy: fmt.Sprintf("Set %s to the right column, or add the column to the table and to the publication's "+
				"column list.", n.Key),
		}
		return
	}
}

// Optional returns the text of a column that the table may not have, nil for NULL.
func (l *Table) Optional(row pgoutput.Tuple, f Field) ([]byte, *router.RowError) {
	if f.Index < 0 {
		return nil, nil
	}
	return l.Text(row, f)
}

// Refuse makes a RowError for the row at hand. Errors are rare, so they may allocate.
func (l *Table) Refuse(row pgoutput.Tuple, reason router.Reason, column, detail, remedy string) *router.RowError {
	e := &router.RowError{Reason: reason, Table: l.Name, Column: column, Detail: detail, Remedy: remedy}
	l.identify(e, row)
	return e
}

func (l *Table) identify(e *router.RowError, row pgoutput.Tuple) {
	if i := l.ID.Index; i >= 0 && i < len(row) && row[i].Kind == pgoutput.Text {
		e.EventID = ClipID(row[i].Data)
	}
}

// Type OIDs are fixed for built-in types (src/include/catalog/pg_type.dat).
const (
	OIDBytea   = 17
	oidName    = 19
	OIDText    = 25
	OIDJSON    = 114
	oidBPChar  = 1042
	OIDJSONB   = 3802
	OIDVarchar = 1043

	OIDTimestampTZ = 1184
)

// Empty stands for the empty string, which must not turn into a nil slice: nil means NULL in a Record.
var Empty = []byte{}

// Text returns a column's text: nil for NULL, never nil otherwise. The slice belongs to the row.
func (l *Table) Text(row pgoutput.Tuple, f Field) ([]byte, *router.RowError) {
	v := &row[f.Index]
	switch v.Kind {
	case pgoutput.Text:
	case pgoutput.Null:
		return nil, nil
	case pgoutput.Binary:
		// The stream asks for text. Should a plugin send binary all the same, only these types have one form.
		switch f.Oid {
		case OIDBytea, oidName, OIDText, OIDJSON, oidBPChar, OIDVarchar:
		default:
			return nil, l.Refuse(row, router.BinaryValue, f.Name, "the value came in binary format",
				"Start the stream without the option binary.")
		}
	case pgoutput.Unchanged:
		return nil, l.Refuse(row, router.UnchangedValue, f.Name,
			"the server left the value out, as for an update of another column",
			"Publish inserts only: ALTER PUBLICATION ... SET (publish = 'insert').")
	case pgoutput.Cut:
		e := router.RefuseLong(l.Name, v.Size)
		e.Column = f.Name
		l.identify(e, row)
		return nil, e
	default:
		return nil, l.Refuse(row, router.MalformedRow, f.Name,
			fmt.Sprintf("the value is of the unknown kind %q", byte(v.Kind)), "Report this as a bug.")
	}
	if v.Data == nil {
		return Empty, nil
	}
	return v.Data, nil
}

// Check finds the rows of which nothing can be read.
func (l *Table) Check(row pgoutput.Tuple) *router.RowError {
	if l.Missing != nil {
		e := *l.Missing
		l.identify(&e, row)
		return &e
	}
	if len(row) != l.width {
		return l.Refuse(row, router.MalformedRow, "",
			fmt.Sprintf("the row has %d values for %d columns", len(row), l.width),
			"Report this as a bug.")
	}
	return nil
}

// Time returns the record's timestamp in milliseconds since 1970.
func (l *Table) Time(row pgoutput.Tuple, commit time.Time) (int64, *router.RowError) {
	if l.Timestamp.Index < 0 {
		return commit.UnixMilli(), nil
	}
	text, err := l.Text(row, l.Timestamp)
	if err != nil {
		return 0, err
	}
	if text == nil {
		return commit.UnixMilli(), nil
	}
	if l.PerSecond != 0 {
		return l.count(row, text)
	}
	if string(text) == string(l.lastTime) && len(text) > 0 {
		return l.lastMilli, nil
	}
	switch ms, how := ParseTimestamp(text); how {
	case parsedOK:
		l.lastTime, l.lastMilli = append(l.lastTime[:0], text...), ms
		return ms, nil
	case parsedNoTime:
		return commit.UnixMilli(), nil
	default:
		return 0, l.Refuse(row, router.BadTimestamp, l.Timestamp.Name, "the text is not a timestamp in DateStyle ISO",
			"Map router.columns.timestamp to a column of type timestamptz or timestamp, or to no column. For one that "+
				"counts from 1970 set router.timestamp_unit.")
	}
}

// endOfTime is the end of the year 9999 in milliseconds. A count beyond it is in another unit.
const endOfTime = 253_402_300_799_999

// count reads a number of units since 1970.
func (l *Table) count(row pgoutput.Tuple, text []byte) (int64, *router.RowError) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n/l.PerSecond > endOfTime/1000 {
		return 0, l.Refuse(row, router.BadTimestamp, l.Timestamp.Name,
			"the value is not a whole number of units from 1970 to 9999",
			"Set router.timestamp_unit to the unit in which the column counts, or map no column.")
	}
	if l.PerSecond == 1 {
		return n * 1000, nil
	}
	return n / (l.PerSecond / 1000), nil
}

// Unroutable refuses a row whose topic would be built from an empty value.
func (l *Table) Unroutable(row pgoutput.Tuple, f Field, null bool) *router.RowError {
	what := "the value is empty"
	if null {
		what = "the value is NULL"
	}
	return l.Refuse(row, router.Unroutable, f.Name, what+", so the event has no topic",
		"Declare the column NOT NULL with a CHECK that it is not empty, so that no more such rows come.")
}

// maxEventID bounds the id in an error, as the column may hold text of any length.
const maxEventID = 64

// ClipID shortens an event id for messages.
func ClipID(id []byte) string {
	if len(id) <= maxEventID {
		return string(id)
	}
	cut := maxEventID
	for cut > 0 && !utf8.RuneStart(id[cut]) {
		cut--
	}
	return string(id[:cut]) + "…"
}
