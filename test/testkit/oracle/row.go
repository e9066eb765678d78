// Package oracle judges a relay from outside: its writers commit and roll back transactions of every shape, a second
// replication slot shows the order in which they committed, a sampler watches the relay's slot, and the checker
// compares all that with what is in Kafka.
//
// The letters N, P, O, S and M are the promises no loss, no phantom, order, slot safety and monotone confirmation
// (ARCHITECTURE.md).
package oracle

import "fmt"

// LSN is a position in the write-ahead log. The oracle has its own: it must not share the product's arithmetic.
type LSN uint64

// String returns the form Postgres prints.
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// Row is a committed row of the outbox: what must be in Kafka.
type Row struct {
	ID     string
	Topic  string
	Key    string
	Value  []byte // nil: NULL
	Commit LSN    // of its transaction's commit record
	End    LSN    // right after that record
	Index  int    // among the transaction's outbox rows, from 0
	XID    uint32
}

// Position is the record's position header as the product documents it.
func (r *Row) Position() string { return fmt.Sprintf("%016x-%08x", uint64(r.Commit), r.Index) }

// commitPosition is the part of it that does not depend on which rows of the transaction a relay is sent.
func (r *Row) commitPosition() string { return fmt.Sprintf("%016x-", uint64(r.Commit)) }

// Record is a Kafka record as it was read back.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte
	Value     []byte
	ID        string // header id
	Position  string // header position
}
