package oracle

import "encoding/binary"

// JavaPartition is the Java client's default partitioner (org.apache.kafka.common.utils.Utils.murmur2, sign bit
// cleared), written down a second time on purpose.
func JavaPartition(key []byte, partitions int32) int32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(key))
	rest := key
	for ; len(rest) >= 4; rest = rest[4:] {
		k := binary.LittleEndian.Uint32(rest) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
	}
	switch len(rest) {
	case 3:
		h ^= uint32(rest[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(rest[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(rest[0])) * m
	}
	h = (h ^ h>>13) * m
	h ^= h >> 15
	return int32(h&0x7fffffff) % partitions
}
