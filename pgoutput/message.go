package pgoutput

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// Kind says which member of a Message is set.
type Kind uint8

const (
	KindKeepalive Kind = iota + 1
	KindBegin
	KindRelation
	KindInsert
	KindCommit
	KindUpdate
	KindDelete
	KindTruncate
	KindLogicalMessage
	KindOrigin
	KindType
	KindPassedOver // a row of a table that Decoder.PassOver names, or a TRUNCATE of such tables alone
	KindOther      // a message type this version does not know (or StreamAbort, which PG 18 may send): counted, ignored
)

// Message is one decoded message of the stream. Only the member named by Kind is meaningful. It and everything it
// points to, except *Relation, are valid until the next Receive.
type Message struct {
	Kind      Kind
	WALStart  lsn.LSN // as in the XLogData header; never a position to confirm
	Keepalive Keepalive
	Begin     Begin
	Commit    Commit
	Relation  *Relation // KindRelation, KindInsert, KindUpdate, KindDelete: the table; immutable
	Tuple     Tuple     // KindInsert, KindUpdate: the new row
	Logical   LogicalMessage
	Truncated []*Relation // KindTruncate: the tables
}

// Keepalive is the primary's keepalive (Postgres docs 55.4, "Primary keepalive message").
type Keepalive struct {
	WALEnd         lsn.LSN
	ReplyRequested bool
}

// Begin opens a transaction. CommitLSN is the LSN of its commit record ("final LSN"), known up front since
// protocol 1 sends a transaction only after its commit.
type Begin struct {
	CommitLSN  lsn.LSN
	CommitTime time.Time
	XID        uint32
}

// Commit closes a transaction. EndLSN is the only position that may be confirmed for it.
type Commit struct {
	CommitLSN  lsn.LSN
	EndLSN     lsn.LSN
	CommitTime time.Time
}

// LogicalMessage is a message that pg_logical_emit_message wrote.
type LogicalMessage struct {
	Transactional bool
	LSN           lsn.LSN
	Prefix        string
	Content       []byte
	Cut           uint32 // bytes of a content that was left out, see Cutter
}

// Relation describes a table as of the rows that follow it. The stream makes a new value for every Relation
// message and never changes one, so a *Relation may serve as a cache key.
type Relation struct {
	OID       uint32
	Namespace string
	Name      string
	Columns   []Column
}

// Column returns the index of the named column, -1 if there is none.
func (r *Relation) Column(name string) int {
	for i := range r.Columns {
		if r.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// Column is one column of a Relation.
type Column struct {
	Name     string
	TypeOID  uint32
	Modifier int32
	Key      bool // part of the replica identity
}

// ValueKind is the kind byte of a tuple column (Postgres docs 55.9, TupleData).
type ValueKind byte

const (
	Null      ValueKind = 'n'
	Unchanged ValueKind = 'u' // a TOASTed value that an UPDATE left alone
	Text      ValueKind = 't'
	Binary    ValueKind = 'b'
	Cut       ValueKind = 'x' // a value that Cutter has left out; no server sends it
)

// Value is one column's value. Data is nil for Null, Unchanged and Cut.
type Value struct {
	Kind ValueKind
	Size uint32 // of a Cut value, in bytes
	Data []byte
}

// Tuple holds a row's values in the order of its Relation's columns.
type Tuple []Value
