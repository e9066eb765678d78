package wire

// HeaderSize is the fixed part of a record batch, message format v2
// (https://kafka.apache.org/documentation/#recordbatch).
const HeaderSize = 61

// Offsets of the header's fields.
const (
	AtLength          = 8  // int32: bytes after this field
	AtLeaderEpoch     = 12 // int32: the broker fills it
	AtMagic           = 16 // int8: 2
	AtCRC             = 17 // uint32: CRC-32C of everything after this field
	AtAttributes      = 21 // int16: codec in the low three bits, transactional
	AtLastOffsetDelta = 23 // int32: records - 1
	AtBaseTimestamp   = 27 // int64
	AtMaxTimestamp    = 35 // int64
	AtProducerID      = 43 // int64
	AtProducerEpoch   = 51 // int16
	AtBaseSequence    = 53 // int32
	AtRecords         = 57 // int32
)

// Transactional is the bit of the attributes for a batch in a transaction.
const Transactional = 1 << 4
