package pgoutput

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// PostgresEpoch is 2000-01-01, from which Postgres counts microseconds.
var PostgresEpoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Decoder reads pgoutput messages, protocol version 1 (Postgres docs 55.9, "Logical Replication Message Formats").
//
// It trusts no length in the input: every read is checked against the bytes left of the message, nothing is allocated
// on the word of a length field, and bytes left over are an error like bytes missing. A message it cannot read in
// full is an error rather than a guess, since a misread row would be published and then confirmed.
type Decoder struct {
	// PassOver, if set, reports whether the rows of a table are of no interest. It is asked for each Relation
	// message.
	PassOver func(*Relation) bool

	// Cut is for a message in the short form of a Cutter.
	Cut bool

	relations map[uint32]*Relation
	passed    map[uint32]struct{} // tables that PassOver named, by OID; see relation
	tuple     Tuple               // reused from row to row
	truncated []*Relation
	prefix    string // the last logical message's prefix: one allocation per change of prefix, not per message

	in  []byte // the message's bytes not yet read
	msg []byte
	lsn lsn.LSN
}

// DecodeError says which message could not be read, and where in it.
type DecodeError struct {
	Type   byte // the message's type byte, 0 if the message is empty
	LSN    lsn.LSN
	Offset int // in bytes from the message's type byte
	Reason string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("pgoutput message %q at %s, byte %d: %s", e.Type, e.LSN, e.Offset, e.Reason)
}

// Decode reads one message into m, whose members alias data. m.Tuple stays valid until the next decode.
func (d *Decoder) Decode(m *Message, at lsn.LSN, data []byte) error {
	d.msg, d.lsn = data, at
	m.WALStart = at
	m.Relation, m.Tuple, m.Truncated = nil, nil, nil
	if len(data) == 0 {
		return d.fail("an empty message")
	}
	d.in = data[1:]
	var err error
	switch data[0] {
	case 'I':
		err = d.insert(m)
	case 'B':
		err = d.decodeBegin(m)
	case 'C':
		err = d.commit(m)
	case 'R':
		err = d.relation(m)
	case 'U':
		err = d.update(m)
	case 'D':
		err = d.delete(m)
	case 'T':
		err = d.truncate(m)
	case 'M':
		err = d.logical(m)
	case 'O':
		err = d.origin(m)
	case 'Y':
		err = d.typ(m)
	default:
		// PG 18 may send a StreamAbort even on protocol 1. The transaction it names was never sent, so there is nothing
		// to undo.
		m.Kind = KindOther
		return nil
	}
	if err != nil {
		return err
	}
	if len(d.in) != 0 {
		return d.fail("%d bytes left over", len(d.in))
	}
	return nil
}

func (d *Decoder) decodeBegin(m *Message) error {
	if err := d.need(20, "Begin"); err != nil {
		return err
	}
	m.Kind = KindBegin
	m.Begin.CommitLSN = lsn.LSN(d.uint64())
	m.Begin.CommitTime = d.time()
	m.Begin.XID = d.uint32()
	return nil
}

func (d *Decoder) commit(m *Message) error {
	if err := d.need(25, "Commit"); err != nil {
		return err
	}
	m.Kind = KindCommit
	d.skip(1) // flags, unused
	m.Commit.CommitLSN = lsn.LSN(d.uint64())
	m.Commit.EndLSN = lsn.LSN(d.uint64())
	m.Commit.CommitTime = d.time()
	return nil
}

func (d *Decoder) truncate(m *Message) error {
	if err := d.need(5, "Truncate"); err != nil {
		return err
	}
	n := d.uint32()
	d.skip(1) // CASCADE, RESTART IDENTITY
	if uint64(n)*4 > uint64(len(d.in)) {
		return d.fail("%d relations announced in %d bytes", n, len(d.in))
	}
	d.truncated = d.truncated[:0]
	for range n {
		rel, err := d.knownRelation()
		if err != nil {
			return err
		}
		if rel != nil {
			d.truncated = append(d.truncated, rel)
		}
	}
	if n > 0 && len(d.truncated) == 0 {
		m.Kind = KindPassedOver
		return nil
	}
	m.Kind = KindTruncate
	m.Truncated = d.truncated
	return nil
}

func (d *Decoder) logical(m *Message) error {
	if err := d.need(9, "logical message"); err != nil {
		return err
	}
	m.Logical.Transactional = d.byte()&1 != 0
	m.Logical.LSN = lsn.LSN(d.uint64())
	prefix, err := d.cstring("prefix")
	if err != nil {
		return err
	}
	if string(prefix) != d.prefix {
		d.prefix = string(prefix)
	}
	m.Logical.Prefix = d.prefix
	if err := d.need(4, "content length"); err != nil {
		return err
	}
	m.Kind, m.Logical.Cut = KindLogicalMessage, 0
	n := d.uint32()
	if d.Cut && n == math.MaxUint32 {
		m.Logical.Content = nil
		if err = d.need(4, "content length"); err == nil {
			m.Logical.Cut = d.uint32()
		}
		return err
	}
	m.Logical.Content, err = d.bytes(n, "content")
	return err
}

func (d *Decoder) origin(m *Message) error {
	if err := d.need(8, "Origin"); err != nil {
		return err
	}
	d.skip(8)
	m.Kind = KindOrigin
	_, err := d.cstring("origin name")
	return err
}

func (d *Decoder) typ(m *Message) error {
	if err := d.need(4, "Type"); err != nil {
		return err
	}
	d.skip(4)
	m.Kind = KindType
	if _, err := d.cstring("type namespace"); err != nil {
		return err
	}
	_, err := d.cstring("type name")
	return err
}

// The readers below need the caller's need(n) first; cstring and bytes check for themselves.

func (d *Decoder) need(n int, what string) error {
	if len(d.in) < n {
		return d.fail("%s needs %d bytes, %d are left", what, n, len(d.in))
	}
	return nil
}

func (d *Decoder) skip(n int) { d.in = d.in[n:] }

func (d *Decoder) byte() byte {
	v := d.in[0]
	d.in = d.in[1:]
	return v
}

func (d *Decoder) uint16() uint16 {
	v := binary.BigEndian.Uint16(d.in)
	d.in = d.in[2:]
	return v
}

func (d *Decoder) uint32() uint32 {
	v := binary.BigEndian.Uint32(d.in)
	d.in = d.in[4:]
	return v
}

func (d *Decoder) uint64() uint64 {
	v := binary.BigEndian.Uint64(d.in)
	d.in = d.in[8:]
	return v
}

// time reads a timestamp. Seconds and microseconds are added apart since a time.Duration spans only 292 years.
func (d *Decoder) time() time.Time {
	us := int64(d.uint64())
	return time.Unix(PostgresEpoch.Unix()+us/1e6, us%1e6*1e3).UTC()
}

// bytes takes n bytes without copying them. The result is never nil and cannot be appended into the bytes that follow.
func (d *Decoder) bytes(n uint32, what string) ([]byte, error) {
	if uint64(n) > uint64(len(d.in)) {
		return nil, d.fail("%s of %d bytes, %d are left", what, n, len(d.in))
	}
	v := d.in[:n:n]
	d.in = d.in[n:]
	return v, nil
}

// cstring takes a string that ends with a NUL byte, without the NUL and without copying.
func (d *Decoder) cstring(what string) ([]byte, error) {
	n := bytes.IndexByte(d.in, 0)
	if n < 0 {
		return nil, d.fail("%s does not end", what)
	}
	if !utf8.Valid(d.in[:n]) {
		return nil, d.fail("%s is not UTF-8", what)
	}
	v := d.in[:n:n]
	d.in = d.in[n+1:]
	return v, nil
}

func (d *Decoder) fail(format string, args ...any) error {
	e := &DecodeError{LSN: d.lsn, Reason: fmt.Sprintf(format, args...)}
	if len(d.msg) > 0 {
		e.Type = d.msg[0]
		e.Offset = len(d.msg) - len(d.in)
	}
	return e
}
