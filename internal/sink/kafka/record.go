package kafka

import (
	"encoding/binary"
	"math/bits"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// Encoding of one record inside a record batch, message format v2
// (https://kafka.apache.org/documentation/#record):
//
//	length varint · attributes int8 · timestampDelta varlong · offsetDelta varint ·
//	keyLength varint, key · valueLength varint, value · headers varint, {keyLength, key, valueLength, value}…
//
// Varints are zigzag-encoded, as encoding/binary's AppendVarint does it; the length of a null is -1.

// varintLen is the number of bytes AppendVarint(v) adds.
func varintLen(v int64) int {
	zigzag := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}

// bodyLen is the length of the body that appendBody appends.
func bodyLen(rec *router.Record) int {
	n := bytesLen(rec.Key) + bytesLen(rec.Value) + varintLen(int64(len(rec.Headers)))
	for i := range rec.Headers {
		h := &rec.Headers[i]
		n += varintLen(int64(len(h.Key))) + len(h.Key) + bytesLen(h.Value)
	}
	return n
}

func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

// appendHead appends the head of the record. length is the value of the record's length field: everything after it.
func appendHead(dst []byte, length int, timestampDelta int64, offsetDelta int32) []byte {
	dst = binary.AppendVarint(dst, int64(length))
	dst = append(dst, 0) // attributes: none are defined for records
	dst = binary.AppendVarint(dst, timestampDelta)
	return binary.AppendVarint(dst, int64(offsetDelta))
}

// appendBody appends the part that does not depend on the batch: key, value and headers.
func appendBody(dst []byte, rec *router.Record) []byte {
	dst = appendBytes(dst, rec.Key)
	dst = appendBytes(dst, rec.Value)
	dst = binary.AppendVarint(dst, int64(len(rec.Headers)))
	for i := range rec.Headers {
		h := &rec.Headers[i]
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
