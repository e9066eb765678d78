package kafka

import "encoding/binary"

// partitionOf is the partition that the Java client chooses for a key: murmur2 with the sign bit cleared (not the
// absolute value), modulo the number of partitions. Services that read by key and Kafka Streams joins count on it
// (org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey).
func partitionOf(key []byte, partitions int) int32 {
	return int32(int(murmur2(key)&0x7fffffff) % partitions)
}

// PartitionOf is the partition that the producer chooses for a record with a key.
func PartitionOf(key []byte, partitions int) int32 { return partitionOf(key, partitions) }

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data)
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
