package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"iter"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// The memory that recycled batches keep is bounded: 4 KiB of tickets, and a list of 64 chunks.
const (
	maxTicketsKept = 512
	maxFullKept    = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is a record batch for one partition. While it is open Produce appends to it; once sealed its records never
// change. The (producer id, epoch, sequence) it got at its first send is the mark by which the broker recognizes a
// repeat by, so it stays the same for every resend; only a new producer id or epoch may rewrite it.
//
// Ownership: the partition, under the producer's lock, except between the hand-over to a connection's writer and
// the answer (or the end of that connection), when the writer alone touches chunks and header.
type batch struct {
	// Fields that each record touches come first, within two cache lines: where thousands of batches are open, they are
	// in no cache.
	tail           []byte   // the chunk that is being filled, nil before the first record
	tickets        []uint64 // one per record, in order
	payload        int      // bytes in the chunks
	window         int64    // sum of Record.Size(), which the caller's window gets back
	firstTimestamp int64
	maxTimestamp   int64
	records        int32

	sequence     int32
	identity     identity
	sequenced    bool // identity and sequence are assigned
	refusedTimes bool // the topic refused its timestamps
	finished     bool // compressed, if it is to be
	codec        int8 // as in the attributes; 0 until finished

	part *partition
	tx   *transaction // nil in idempotent mode
	full [][]byte     // the chunks before tail
	made int64        // when its first record was taken, in milliseconds; see freshen

	baseOffset int64      // -1 while it is not known
	order      uint64     // in its request
	tags       []sink.Tag // of the few records that have one
	words      string     // of the broker about an error in its last answer, empty for none
	named      []int32    // while unplaced: the partitions that the records name, -1 for none

	header  [wire.HeaderSize]byte
	stamped bool // header is valid for identity, sequence and codec
}

var freeBatches freeList[*batch]

func newBatch(part *partition) *batch {
	b, ok := freeBatches.take()
	if !ok {
		b = new(batch)
	}
	b.part, b.baseOffset = part, -1
	return b
}

// chunks are the batch's records, in order.
func (b *batch) chunks() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, c := range b.full {
			if !yield(c) {
				return
			}
		}
		if len(b.tail) > 0 {
			yield(b.tail)
		}
	}
}

// free recycles the batch and its memory. No other holder may be left.
func (b *batch) free() {
	b.freeChunks()
	tickets, full := b.tickets[:0], b.full
	if cap(tickets) > maxTicketsKept {
		tickets = nil
	}
	if cap(full) > maxFullKept {
		full = nil
	}
	*b = batch{full: full, tickets: tickets}
	freeBatches.put(b)
}

// freeChunks gives the batch's records up.
func (b *batch) freeChunks() {
	for _, c := range b.full {
		freeChunk(c)
	}
	clear(b.full)
	freeChunk(b.tail)
	b.full, b.tail = b.full[:0], nil
}

// size is the number of bytes the batch takes in a request and in the log.
func (b *batch) size() int { return wire.HeaderSize + b.payload }

// append encodes the record and returns the bytes it took, 0 where the batch would grow beyond limit. The first
// record always fits: one that is too large for the topic is for the broker to refuse, see batchsplit.go. Nothing of
// rec is kept.
func (b *batch) append(rec *router.Record, ticket uint64, limit int) int {
	n := b.enter(bodyLen(rec), rec.Timestamp, ticket, limit, true)
	if n == 0 {
		return 0
	}
	b.tail = appendBody(b.tail, rec)
	if rec.Tag != nil {
		b.tags = append(b.tags, sink.Tag{Record: b.records - 1, Tag: rec.Tag})
	}
	b.window += int64(rec.Size())
	return n
}

// appendBody is append for a record whose body is encoded already, which may lie in several chunks. What it counts for
// in the window, and its tag, are the caller's.
func (b *batch) appendBody(body []byte, timestamp int64, ticket uint64, limit int) int {
	n := b.enter(len(body), timestamp, ticket, limit, false)
	if n == 0 {
		return 0
	}
	for {
		fits := min(len(body), cap(b.tail)-len(b.tail))
		b.tail = append(b.tail, body[:fits]...)
		if body = body[fits:]; len(body) == 0 {
			return n
		}
		b.grow(len(body))
	}
}

// largestHead is the most that a record takes before its body.
const largestHead = 3*binary.MaxVarintLen64 + 1

// enter counts a record whose body has so many bytes, writes the head of the record, and returns the bytes that the
// record takes, 0 where the batch would grow beyond limit. A whole record has room for its body in the chunk.
func (b *batch) enter(body int, timestamp int64, ticket uint64, limit int, whole bool) int {
	if b.records == 0 {
		b.firstTimestamp, b.maxTimestamp = timestamp, timestamp
	}
	delta := timestamp - b.firstTimestamp
	length := 1 + varintLen(delta) + varintLen(int64(b.records)) + body
	n := varintLen(int64(length)) + length
	if b.records > 0 && b.size()+n > limit {
		return 0
	}
	need := n
	if !whole {
		need = min(n, largestHead)
	}
	if cap(b.tail)-len(b.tail) < need {
		b.grow(n)
	}
	b.tail = appendHead(b.tail, length, delta, b.records)

	b.payload += n
	b.records++
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
	b.tickets = append(b.tickets, ticket)
	return n
}

// grow begins a chunk with room for n bytes.
func (b *batch) grow(n int) {
	size := n // a page, where that is enough
	if b.part == nil || max(b.part.usual, b.payload) > smallBatch {
		size = chunkSize(n, b.payload)
	}
	if len(b.tail) > 0 {
		b.full = append(b.full, b.tail)
	}
	b.tail = newChunk(size)
}

// assign gives the batch its place in the partition's sequence.
func (b *batch) assign(id identity, sequence int32) {
	if b.sequenced && b.identity == id && b.sequence == sequence {
		return
	}
	b.identity, b.sequence, b.sequenced, b.stamped = id, sequence, true, false
}

// stamp fills the header, checksum included. A batch that is sent again unchanged keeps its header.
func (b *batch) stamp() {
	if b.stamped {
		return
	}
	h := &b.header
	be := binary.BigEndian
	be.PutUint32(h[wire.AtLength:], uint32(b.size()-wire.AtLeaderEpoch))
	be.PutUint32(h[wire.AtLeaderEpoch:], 0xffffffff)
	h[wire.AtMagic] = 2
	attributes := uint16(b.codec)
	if b.tx != nil {
		attributes |= wire.Transactional
	}
	be.PutUint16(h[wire.AtAttributes:], attributes)
	be.PutUint32(h[wire.AtLastOffsetDelta:], uint32(b.records-1))
	be.PutUint64(h[wire.AtBaseTimestamp:], uint64(b.firstTimestamp))
	be.PutUint64(h[wire.AtMaxTimestamp:], uint64(b.maxTimestamp))
	be.PutUint64(h[wire.AtProducerID:], uint64(b.identity.id))
	be.PutUint16(h[wire.AtProducerEpoch:], uint16(b.identity.epoch))
	be.PutUint32(h[wire.AtBaseSequence:], uint32(b.sequence))
	be.PutUint32(h[wire.AtRecords:], uint32(b.records))

	crc := crc32.Update(0, castagnoli, h[wire.AtAttributes:])
	for c := range b.chunks() {
		crc = crc32.Update(crc, castagnoli, c)
	}
	be.PutUint32(h[wire.AtCRC:], crc)
	b.stamped = true
}

// advance is the sequence number n records after s: sequences run from 0 to 2^31-1 and start over.
func advance(s, n int32) int32 {
	return int32((uint32(s) + uint32(n)) & 0x7fffffff)
}
