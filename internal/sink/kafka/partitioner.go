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

// choose returns the partition for a record: the partition it names, the partition of its key's hash, or for records
// without a key a sticky one, which changes whenever its batch was taken, so that records gather in few batches under
// load and spread evenly when there is little of it. nil: the record names a partition that does not exist.
func (t *topic) choose(explicit int32, key []byte) *partition {
	switch {
	case int(explicit) >= len(t.partitions):
		return nil
	case explicit >= 0:
		return t.partitions[explicit]
	case key != nil:
		return t.partitions[partitionOf(key, len(t.partitions))]
	}
	if part := t.partitions[t.sticky%len(t.partitions)]; part.open != nil {
		return part
	}
	for range t.partitions {
		t.sticky = (t.sticky + 1) % len(t.partitions)
		if t.partitions[t.sticky].broker != nil {
			break
		}
	}
	return t.partitions[t.sticky]
}
