package router

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// MessageSchema is the schema of the relations that stand for logical messages, which have no table.
const MessageSchema = "pg_logical_emit_message"

// Members of a message's content. Those of a row's parts have the names of the configuration's roles, not of its columns:
// who emits a message names no columns.
const (
	memberPayload       = "payload"
	memberPayloadText   = "payload_text"
	memberPayloadBase64 = "payload_base64"
)

const oidTimestampTZ = 1184

// messages makes rows of logical messages, so that they go the way of a table's rows from there on: router, dead letters,
// retries.
type messages struct {
	members   []string // by column; the payload's has three forms
	columns   []pgoutput.Column
	payload   int
	timestamp int // -1: none

	relations map[string]*[3]*pgoutput.Relation // by prefix; by the payload's form
	object    jsonObject
	tuple     pgoutput.Tuple
	seen      []bool
	bytea     []byte
	time      []byte
}

// newMessages takes the columns that the configuration names: those of roles, then any other.
func (r *Router) newMessages() *messages {
	m := &messages{relations: map[string]*[3]*pgoutput.Relation{}, timestamp: -1}
	add := func(member, column string, oid uint32) {
		if column != "" && !slices.ContainsFunc(m.columns, func(c pgoutput.Column) bool { return c.Name == column }) {
			m.members = append(m.members, member)
			m.columns = append(m.columns, pgoutput.Column{Name: column, TypeOID: oid, Modifier: -1})
		}
	}
	more := func(columns ...string) {
		for _, name := range columns {
			add(name, name, oidText)
		}
	}
	if d := r.debezium; d != nil {
		c := d.cfg.Columns
		add("id", c.ID, oidText)
		add("aggregate_type", c.Route, oidText)
		add("aggregate_id", c.Key, oidText)
		add(memberPayload, c.Payload, oidJSON)
		add("timestamp", c.Timestamp, oidTimestampTZ)
		more(c.SchemaVersion, c.Tracing)
		for _, p := range d.placements {
			more(p.column)
		}
		m.finish(c.Payload, c.Timestamp)
		return m
	}
	c := r.cfg.Columns
	add("id", c.ID, oidText)
	add("aggregate_type", c.AggregateType, oidText)
	add("aggregate_id", c.AggregateID, oidText)
	add("type", c.Type, oidText)
	add(memberPayload, c.Payload, oidJSON)
	add("headers", c.Headers, oidJSON)
	add("timestamp", c.Timestamp, oidTimestampTZ)
	for _, p := range r.topics.parts {
		if p.role == roleColumn {
			more(p.text)
		}
	}
	more(r.cfg.KeyColumns...)
	for _, n := range slices.Concat(r.columnHeaders, r.extensions) {
		more(n.column)
	}
	more(r.cfg.Envelope.VersionColumn, r.cfg.Envelope.TraceIDColumn, r.cfg.Registry.SchemaIDColumn)
	m.finish(c.Payload, c.Timestamp)
	return m
}

func (m *messages) finish(payload, timestamp string) {
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

// Message makes a row of the content of a logical message: a JSON object (docs/messages.md). The row belongs to the Router
// and lives as long as the content, until the next call. The error is a *RowError; the row then has the content as its
// payload and nothing else, for a dead letter.
func (r *Router) Message(prefix string, content []byte) (*pgoutput.Relation, pgoutput.Tuple, error) {
	if r.messages == nil {
		r.messages = r.newMessages()
	}
	m := r.messages
	form, err := m.read(content)
	if err == nil {
		return m.relation(prefix, form), m.tuple, nil
	}
	bad := &RowError{
		Reason: BadMessage, Table: MessageSchema + "." + prefix, Detail: err.Error(),
		Remedy: "Emit messages with this prefix as docs/messages.md describes.",
	}
	if i := slices.Index(m.members, "id"); m.tuple[i].Kind == pgoutput.Text {
		bad.EventID = clipID(m.tuple[i].Data)
	}
	m.clear()
	m.tuple[m.payload] = pgoutput.Value{Kind: pgoutput.Text, Data: content}
	return m.relation(prefix, formText), m.tuple, bad
}

// RefuseMessage is the error for a message that was not emitted as part of a transaction, and its content as a row.
func (r *Router) RefuseMessage(prefix string) error {
	return &RowError{
		Reason: NotTransactional, Table: MessageSchema + "." + prefix,
		Detail: "the message was emitted outside of any transaction, so it stands at no commit and may be of one that was rolled back",
		Remedy: "Call pg_logical_emit_message(true, …).",
	}
}

// The payload's forms, each of which has a type of its own.
const (
	formJSON = iota
	formText
	formBytes
)

func (m *messages) relation(prefix string, form int) *pgoutput.Relation {
	forms := m.relations[prefix]
	if forms == nil {
		forms = new([3]*pgoutput.Relation)
		for i, oid := range []uint32{oidJSON, oidText, oidBytea} {
			columns := slices.Clone(m.columns)
			columns[m.payload].TypeOID = oid
			// No table has such a number: those below 16384 are the system's, and few of these are in use.
			rel := pgoutput.Relation{OID: uint32(1 + 3*len(m.relations) + i), Namespace: MessageSchema, Name: prefix, Columns: columns}
			forms[i] = &rel
		}
		m.relations[prefix] = forms
	}
	return forms[form]
}

func (m *messages) clear() {
	for i := range m.tuple {
		m.tuple[i] = pgoutput.Value{Kind: pgoutput.Null}
		m.seen[i] = false
	}
}

// read fills the tuple. Members that the configuration has no use for are passed over.
func (m *messages) read(content []byte) (form int, err error) {
	m.clear()
	o := &m.object
	if cap(o.scratch) > maxKeptBuffer {
		o.scratch = nil
	}
	some, err := o.reset(content)
	if err == nil && !some {
		err = errJSONObject
	}
	o.loose = true
	for err == nil {
		name, ok, nerr := o.name()
		if nerr != nil || !ok {
			return form, nerr
		}
		form, err = m.member(name, form)
	}
	return form, err
}

// member reads one member, at whose value the object stands.
func (m *messages) member(name []byte, form int) (int, error) {
	given := formJSON
	i := m.index(name)
	switch string(name) {
	case memberPayloadText:
		given, i = formText, m.payload
	case memberPayloadBase64:
		given, i = formBytes, m.payload
	}
	if i < 0 {
		return form, m.object.value(0)
	}
	if m.seen[i] {
		return form, fmt.Errorf("the member %q, or another form of it, is there twice", m.members[i])
	}
	m.seen[i] = true
	start := m.object.pos
	if m.columns[i].TypeOID == oidJSON && given == formJSON {
		if err := m.object.value(0); err != nil {
			return form, err
		}
		if raw := m.object.src[start:m.object.pos:m.object.pos]; string(raw) != "null" {
			m.tuple[i] = pgoutput.Value{Kind: pgoutput.Text, Data: raw}
		}
		return form, nil
	}
	isString := start < len(m.object.src) && m.object.src[start] == '"'
	text, err := m.object.member()
	if err != nil || text == nil {
		return form, err
	}
	switch {
	case given != formJSON && !isString:
		return form, fmt.Errorf("the member %q is no string", name)
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

func (m *messages) index(name []byte) int {
	for i := range m.members {
		if m.members[i] == string(name) {
			return i
		}
	}
	return -1
}

// decode turns base64 (RFC 4648, section 4) into what Postgres prints for bytea. encode() breaks lines after 76 digits;
// the decoder passes over them.
func (m *messages) decode(text []byte) ([]byte, error) {
	if cap(m.bytea) > maxKeptBuffer {
		m.bytea = nil
	}
	n := base64.StdEncoding.DecodedLen(len(text))
	m.bytea = slices.Grow(m.bytea[:0], 2+3*n)
	raw := m.bytea[2+2*n : 2+3*n] // behind where its digits go
	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		return nil, fmt.Errorf("the member %q is no base64", memberPayloadBase64)
	}
	m.bytea = hex.AppendEncode(append(m.bytea, `\x`...), raw[:n])
	return m.bytea, nil
}

// asPrinted brings the forms of RFC 3339 and of to_json to the one that Postgres prints.
func (m *messages) asPrinted(text []byte) []byte {
	m.time = append(m.time[:0], text...)
	if len(m.time) > 10 && m.time[10] == 'T' {
		m.time[10] = ' '
	}
	if n := len(m.time); n > 0 && m.time[n-1] == 'Z' {
		m.time = append(m.time[:n-1], "+00"...)
	}
	return m.time
}
