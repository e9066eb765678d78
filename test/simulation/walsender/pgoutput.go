package walsender

import (
	"encoding/binary"
	"time"
)

// The messages of pgoutput, protocol version 1 (Postgres docs 55.9).

var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const relationOID = 16400

// Columns are the outbox's columns, all of type text.
var Columns = []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"}

func encodeBegin(t *Txn) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'B'}, uint64(t.Commit))
	b = binary.BigEndian.AppendUint64(b, uint64(t.At.Sub(postgresEpoch).Microseconds()))
	return binary.BigEndian.AppendUint32(b, t.XID)
}

func encodeCommit(t *Txn) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, uint64(t.Commit))
	b = binary.BigEndian.AppendUint64(b, uint64(t.End))
	return binary.BigEndian.AppendUint64(b, uint64(t.At.Sub(postgresEpoch).Microseconds()))
}

func encodeRelation(oid uint32) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'R'}, oid)
	b = append(b, "public\x00outbox\x00d"...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(Columns)))
	for _, c := range Columns {
		b = append(b, 0)
		b = append(append(b, c...), 0)
		b = binary.BigEndian.AppendUint32(b, oidText)
		b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	}
	return b
}

func encodeInsert(oid uint32, row Row) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'I'}, oid)
	b = append(b, 'N')
	b = binary.BigEndian.AppendUint16(b, uint16(len(Columns)))
	for _, v := range []string{row.ID, row.Topic, row.Key, "changed", row.ID} {
		b = append(b, 't')
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return b
}
