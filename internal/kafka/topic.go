package kafka

import "time"

// topic is a topic in use. Guarded by the producer's lock.
type topic struct {
	name       string
	partitions []*partition // empty until metadata names them
	limit      int          // largest record batch to seal
	max        int          // max.message.bytes, 0 while it is not known
	sticky     int          // partition that takes records without a key

	shifts shifts     // how far timestamps may be from the present time
	times  timestamps // and what that means for records right now

	// more is a higher partition count than len(partitions), seen in metadata and not yet adopted. See adopt.
	more int

	// fewer is a lower partition count, of a topic that was re-created, until no record of the others is left.
	fewer     int
	fewerAt   time.Time // of the first of fewerSeen
	fewerSeen int       // metadata answers in a row that said so

	waiters int // calls of Produce that wait for the topic, and replacements

	seenAt time.Time // when metadata named its partitions last

	// wanted is the highest partition that a record named and that did not exist.
	wanted int

	// described: the topic's limits were asked for. Unset after MESSAGE_TOO_LARGE, so that they are asked again.
	described   bool
	describedAt time.Time // of the last answer
	describeAt  time.Time // when they are asked for again: an operator may change them

	creation creation
	trouble  trouble
}

// ready reports whether records can be appended to the topic's partitions.
func (t *topic) ready() bool { return len(t.partitions) > 0 && t.more == 0 && t.fewer == 0 }

// wantedNow reports whether anything waits for the topic.
func (t *topic) wantedNow() bool { return t.waiters > 0 || !t.quiet() }

// quiet reports whether nothing of the topic waits for an acknowledgement.
func (t *topic) quiet() bool {
	for _, part := range t.partitions {
		if part.open != nil || len(part.queued) > 0 || len(part.inflight) > 0 {
			return false
		}
	}
	return true
}

// adopt brings the number of partitions to n. When partitions are added, keys move: the newer records of a key would
// go to another partition while older ones are still in flight, and could be written first. So Produce waits
// until everything older is acknowledged (quiet). Across the two partitions only time orders the records of a
// key, which is Kafka's nature; but no record is ever written before an older one of its key.
func (t *topic) adopt(n int) {
	for i := len(t.partitions); i < n; i++ {
		t.partitions = append(t.partitions, &partition{topic: t, index: int32(i), readyAt: notReady})
	}
	t.more = 0
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
