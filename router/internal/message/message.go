// Package message turns logical messages into rows, so that routing, dead letters and retries have one path.
package message

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/jsonobject"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// Members of a message's content. The members for a row's parts have the names of the configuration's roles, not of
// columns: the application that emits a message names no columns.
const (
	MemberPayload       = "payload"
	memberPayloadText   = "payload_text"
	memberPayloadBase64 = "payload_base64"
)

// Rows makes rows of logical messages, so that they go the way of a table's rows from there on: router, dead letters,
// retries.
type Rows struct {
	members   []string // by column; the payload's has three forms
	columns   []pgoutput.Column
	payload   int
	timestamp int // -1: none

	relations map[string]*[3]*pgoutput.Relation // by prefix; by the payload's form
	object    jsonobject.Object
	tuple     pgoutput.Tuple
	seen      []bool
	bytea     []byte
	time      []byte
}

// Part is a member of a message's content, with the column that it becomes.
type Part struct {
	Member, Column string
	OID            uint32
}

// Columns are the columns that a preset reads: the columns with a role, of which two are special, then any others.
type Columns struct {
	Parts              []Part
	Payload, Timestamp string
	Others             []string
}

// New prepares the relations of the messages that have these columns.
func New(columns Columns) *Rows {
	m := &Rows{relations: map[string]*[3]*pgoutput.Relation{}, timestamp: -1}
	add := func(p Part) {
		if p.Column != "" && !slices.ContainsFunc(m.columns, func(c pgoutput.Column) bool {
			return c.Name == p.Column
		}) {
			m.members = append(m.members, p.Member)
			m.columns = append(m.columns, pgoutput.Column{Name: p.Column, TypeOID: p.OID, Modifier: -1})
		}
	}
	for _, p := range columns.Parts {
		add(p)
	}
	for _, name := range columns.Others {
		add(Part{name, name, layout.OIDText})
	}
	m.locateColumns(columns.Payload, columns.Timestamp)
	return m
}

func (m *Rows) locateColumns(payload, timestamp string) {
	for i, c := range m.columns {
		switch c.Name {
		case payload:
			m.payload = i
		case timestamp:
			m.timestamp = i
		}
	}
	m.tuple = make(pgoutput.Tuple, len(m.columns))
	m.seen = make([]bool, len(m.columns))
}

// Row makes a row of a message's content. It lives as long as the content, until the next call. The error is a
// *RowError; the row then has the content as its payload and nothing else, for a dead letter.
func (m *Rows) Row(l *pgoutput.LogicalMessage) (*pgoutput.Relation, pgoutput.Tuple, error) {
	if l.Cut > 0 {
		m.clear()
		m.tuple[m.payload] = pgoutput.Value{Kind: pgoutput.Cut, Size: l.Cut}
		bad := router.RefuseLong(router.MessageSchema+"."+l.Prefix, l.Cut)
		return m.relation(l.Prefix, formText), m.tuple, bad
	}
	form, err := m.read(l.Content)
	if err == nil {
		return m.relation(l.Prefix, form), m.tuple, nil
	}
	bad := &router.RowError{
		Reason: router.BadMessage, Table: router.MessageSchema + "." + l.Prefix, Detail: err.Error(),
		Remedy: "Emit messages with this prefix as docs/messages.md describes.",
	}
	if i := slices.Index(m.members, "id"); m.tuple[i].Kind == pgoutput.Text {
		bad.EventID = layout.ClipID(m.tuple[i].Data)
	}
	m.clear()
	m.tuple[m.payload] = pgoutput.Value{Kind: pgoutput.Text, Data: l.Content}
	return m.relation(l.Prefix, formText), m.tuple, bad
}

// The payload's forms, each of which has a type of its own.
const (
	formJSON = iota
	formText
	formBytes
)

func (m *Rows) relation(prefix string, form int) *pgoutput.Relation {
	forms := m.relations[prefix]
	if forms == nil {
		forms = new([3]*pgoutput.Relation)
		for i, oid := range []uint32{layout.OIDJSON, layout.OIDText, layout.OIDBytea} {
			columns := slices.Clone(m.columns)
			columns[m.payload].TypeOID = oid
			// No table has such a number: those below 16384 are the system's, and few of these are in use.
			rel := pgoutput.Relation{
				OID: uint32(1 + 3*len(m.relations) + i), Namespace: router.MessageSchema, Name: prefix,
				Columns: columns,
			}
			forms[i] = &rel
		}
		m.relations[prefix] = forms
	}
	return forms[form]
}

func (m *Rows) clear() {
	for i := range m.tuple {
		m.tuple[i] = pgoutput.Value{Kind: pgoutput.Null}
		m.seen[i] = false
	}
}

// read fills the tuple. Members that the configuration has no use for are passed over.
func (m *Rows) read(content []byte) (form int, err error) {
	m.clear()
	o := &m.object
	if cap(o.Scratch) > layout.MaxKeptBuffer {
		o.Scratch = nil
	}
	some, err := o.Reset(content)
	if err == nil && !some {
		err = jsonobject.ErrNoObject
	}
	o.Loose = true
	for err == nil {
		name, ok, nerr := o.Name()
		if nerr != nil || !ok {
			return form, nerr
		}
		form, err = m.member(name, form)
	}
	return form, err
}

// member reads one member; the object is at the member's value.
func (m *Rows) member(name []byte, form int) (int, error) {
	given := formJSON
	i := m.index(name)
	switch string(name) {
	case memberPayloadText:
		given, i = formText, m.payload
	case memberPayloadBase64:
		given, i = formBytes, m.payload
	}
	if i < 0 {
		return form, m.object.Value(0)
	}
	if m.seen[i] {
		return form, fmt.Errorf("the member %q, or another form of it, is there twice", m.members[i])
	}
	m.seen[i] = true
	start := m.object.Pos
	if m.columns[i].TypeOID == layout.OIDJSON && given == formJSON {
		if err := m.object.Value(0); err != nil {
			return form, err
		}
		if raw := m.object.Src[start:m.object.Pos:m.object.Pos]; string(raw) != "null" {
			m.tuple[i] = pgoutput.Value{Kind: pgoutput.Text, Data: raw}
		}
		return form, nil
	}
	isString := start < len(m.object.Src) && m.object.Src[start] == '"'
	text, err := m.object.Member()
	if err != nil || text == nil {
		return form, err
	}
	switch {
	case given != formJSON && !isString:
		return form, fmt.Errorf("the member %q is not a string", name)
	case given == formText:
		form = formText
	case given == formBytes:
		form = formBytes
		if text, err = m.decode(text); err != nil {
			return form, err
		}
	case i == m.timestamp:
		text = m.asPrinted(text)
	}
	m.tuple[i] = pgoutput.Value{Kind: pgoutput.Text, Data: text}
	return form, nil
}

func (m *Rows) index(name []byte) int {
	for i := range m.members {
		if m.members[i] == string(name) {
			return i
		}
	}
	return -1
}

// decode turns base64 (RFC 4648, section 4) into Postgres' text of bytea. encode() breaks lines after 76 digits;
// the decoder passes over them.
func (m *Rows) decode(text []byte) ([]byte, error) {
	if cap(m.bytea) > layout.MaxKeptBuffer {
		m.bytea = nil
	}
	n := base64.StdEncoding.DecodedLen(len(text))
	m.bytea = slices.Grow(m.bytea[:0], 2+3*n)
	raw := m.bytea[2+2*n : 2+3*n] // after the room for its digits
	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		return nil, fmt.Errorf("the member %q is not base64", memberPayloadBase64)
	}
	m.bytea = hex.AppendEncode(append(m.bytea, `\x`...), raw[:n])
	return m.bytea, nil
}

// asPrinted turns the forms of RFC 3339 and of to_json into the form that Postgres prints.
func (m *Rows) asPrinted(text []byte) []byte {
	m.time = append(m.time[:0], text...)
	if len(m.time) > 10 && m.time[10] == 'T' {
		m.time[10] = ' '
	}
	if n := len(m.time); n > 0 && m.time[n-1] == 'Z' {
		m.time = append(m.time[:n-1], "+00"...)
	}
	return m.time
}
