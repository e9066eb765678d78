package reader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// More bits of a batch's attributes.
const (
	codecBits     = 7
	logAppendTime = 1 << 3 // all records have the batch's maximum timestamp
	controlBatch  = 1 << 5
)

// scan gives the records of the answer that lie in the span, from offset at on, and returns where to go on.
//
// Aborted transactions are left out as KIP-98 has it: the broker lists the transactions that overlap with the answer;
// from the first offset of one on, whatever its producer wrote transactionally is aborted, until the marker that says
// so.
func (f *fetchBuffer) scan(
	a *fetchAnswer, s sink.Span, at int64, give func(*sink.Message) bool,
) (next int64, more bool, err error) {
	next = at
	aborted, listed := map[int64]bool{}, a.aborted
	for rest := a.records; len(rest) > 0; {
		h, n, err := batchAt(rest)
		if err != nil {
			return next, true, fmt.Errorf("at offset %d: %w", next, err)
		}
		if n == 0 { // cut off
			if next == at {
				return next, true, wire.DataError(fmt.Sprintf("at offset %d: the batch is not whole", next))
			}
			return next, true, nil
		}
		batch := rest[:n]
		rest = rest[n:]

		for len(listed) > 0 && listed[0].first <= h.last {
			aborted[listed[0].producer] = true
			listed = listed[1:]
		}
		switch {
		case h.attributes&controlBatch != 0:
			// A marker ends the producer's transaction, whichever way: its next record belongs to another one.
			delete(aborted, h.producer)
		case h.attributes&wire.Transactional != 0 && aborted[h.producer]:
		case h.last < next:
		default:
			if more, err := f.records(h, batch[wire.HeaderSize:], s, next, give); err != nil || !more {
				return next, more, err
			}
		}
		if next = max(next, h.last+1); next >= s.End {
			break
		}
	}
	return next, true, nil
}

// batchHeader holds the fields that are needed of a batch's head.
type batchHeader struct {
	base, last int64
	attributes uint16
	first, max int64 // timestamps
	producer   int64
	records    int32
}

// batchAt decodes the head of the batch that b starts with, and returns the batch's size, 0 where b ends before it
// does.
func batchAt(b []byte) (h batchHeader, size int, err error) {
	if len(b) < wire.AtCRC {
		return h, 0, nil
	}
	be := binary.BigEndian
	if magic := b[wire.AtMagic]; magic != 2 {
		return h, 0, wire.DataError(fmt.Sprintf("message format %d; formats before Kafka 0.11 are not read", magic))
	}
	length := int32(be.Uint32(b[wire.AtLength:]))
	if length < wire.HeaderSize-wire.AtLeaderEpoch {
		return h, 0, wire.DataError(fmt.Sprintf("a batch of %d bytes", length))
	}
	size = int(length) + wire.AtLeaderEpoch
	if size > len(b) {
		return h, 0, nil
	}
	if crc32.Checksum(b[wire.AtAttributes:size], crcTable) != be.Uint32(b[wire.AtCRC:]) {
		return h, 0, wire.DataError("the batch's checksum is wrong")
	}
	delta := int32(be.Uint32(b[wire.AtLastOffsetDelta:]))
	h = batchHeader{
		base: int64(be.Uint64(b)), attributes: be.Uint16(b[wire.AtAttributes:]),
		first: int64(be.Uint64(b[wire.AtBaseTimestamp:])), max: int64(be.Uint64(b[wire.AtMaxTimestamp:])),
		producer: int64(be.Uint64(b[wire.AtProducerID:])), records: int32(be.Uint32(b[wire.AtRecords:])),
	}
	h.last = h.base + int64(delta)
	if h.base < 0 || delta < 0 || h.last < h.base || h.records < 0 {
		return h, 0, wire.DataError("the batch's offsets make no sense")
	}
	return h, size, nil
}

// records gives the batch's records within [from, s.End).
func (f *fetchBuffer) records(
	h batchHeader, body []byte, s sink.Span, from int64, give func(*sink.Message) bool,
) (more bool, err error) {
	if body, err = f.plain.expand(int8(h.attributes&codecBits), body); err != nil {
		return true, fmt.Errorf("batch at offset %d: %w", h.base, err)
	}
	if f.needle != nil && !bytes.Contains(body, f.needle) {
		return true, nil
	}
	c := wire.NewCursor(body)
	m := &f.msg
	m.Topic, m.Partition = s.Topic, s.Partition
	for range h.records {
		f.record(&c, h, m)
		if err := c.Err(); err != nil {
			return true, fmt.Errorf("batch at offset %d: %w", h.base, err)
		}
		if m.Offset < from || m.Offset >= s.End {
			continue
		}
		if !give(m) {
			return false, nil
		}
	}
	return true, nil
}

// record decodes one record into m; see record.go for the layout.
func (f *fetchBuffer) record(c *wire.Cursor, h batchHeader, m *sink.Message) {
	r := wire.NewCursor(c.Bytes(int(c.Varint())))
	r.Bytes(1) // attributes
	m.Timestamp = h.first + r.Varint()
	if m.AppendTime = h.attributes&logAppendTime != 0; m.AppendTime {
		m.Timestamp = h.max
	}
	m.Offset = h.base + r.Varint()
	m.Key, m.Value = r.Nullable(), r.Nullable()
	m.Headers = m.Headers[:0]
	n := r.Varint()
	if n < 0 || n > int64(r.Left()/2) { // a header takes two bytes at least
		r.Bad = true
	}
	for i := int64(0); i < n && !r.Bad; i++ {
		key := r.Bytes(int(r.Varint()))
		m.Headers = append(m.Headers, router.Header{Key: f.name(key), Value: r.Nullable()})
	}
	c.Bad = c.Bad || r.Bad || r.Left() > 0 || m.Offset > h.last || m.Offset < h.base
}

// name is the header's name as a string; the few that a topic's records have are kept.
func (f *fetchBuffer) name(b []byte) string {
	if s, ok := f.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if f.names == nil || len(f.names) > 1000 {
		f.names = map[string]string{}
	}
	f.names[s] = s
	return s
}
