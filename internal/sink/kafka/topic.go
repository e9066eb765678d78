package kafka

import (
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// topic is a topic in use. Guarded by the producer's lock.
type topic struct {
	// Fields that each record touches come first, within two cache lines: of thousands of topics, none is in a cache.
	partitions []*partition // empty until metadata names them
	// unplaced holds the records that wait for the topic's partitions, in the form of one; nil for none.
	unplaced *partition
	// more is a higher partition count than len(partitions), seen in metadata and not yet adopted. See adopt.
	more int
	// fewer is a lower partition count, of a topic that was made again, for which the session ended; 0 for none.
	fewer int
	limit int        // largest record batch to seal
	max   int        // max.message.bytes, 0 while it is not known
	times timestamps // that need no change, see timestamp.go
	stale bool       // its partitions have to be asked for before the next record; see Refresh

	name   string
	number uint32 // of the topic in this producer
	sticky int    // partition that takes records without a key
	shifts shifts // how far timestamps may be from the present time

	grown sink.Growth // the last one; no time: none

	fewerAt   time.Time // of the first of fewerSeen
	fewerSeen int       // metadata answers in a row that said so

	waiters int // calls of Produce that wait for the topic, and replacements

	seenAt time.Time // when metadata named its partitions last

	// described: the topic's limits were asked for. Unset after MESSAGE_TOO_LARGE, so that they are asked again.
	described   bool
	describedAt time.Time // of the last answer
	describeAt  time.Time // when they are asked for again: an operator may change them
	settings    string    // all that were asked for, as text; empty: not known

	refused *refusals // of records that were taken; nil for none

	creation    creation
	refusedName refusedName
	trouble     trouble

	absent bool      // the last metadata answer knows no such topic
	madeAt time.Time // when this producer created it
}

// topics are the topics in use, by name.
type topics map[string]*topic

// ready reports whether records can be appended to the topic's partitions.
func (t *topic) ready() bool {
	return len(t.partitions) > 0 && t.more == 0 && t.unplaced == nil && !t.stale
}

// wantedNow reports whether anything waits for the topic.
func (t *topic) wantedNow() bool { return t.waiters > 0 || t.unplaced != nil || !t.quiet() }

// leaderless reports whether the topic waits for metadata to change.
func (t *topic) leaderless() bool {
	if len(t.partitions) == 0 || t.stale || t.unplaced != nil || t.trouble.Kind != "" {
		return true
	}
	for _, part := range t.partitions {
		if part.pending > 0 && (part.broker == nil || part.trouble.Kind == sink.NoLeader) {
			return true
		}
	}
	return false
}

// quiet reports whether nothing in the topic's partitions waits for an acknowledgement.
func (t *topic) quiet() bool { return !slices.ContainsFunc(t.partitions, (*partition).busy) }

// calm is quiet but for what belongs to a transaction with unplaced records. It is not begun in Kafka, and waits itself
// for the topic to have its partitions; a consumer sees it all at once.
func (t *topic) calm() bool {
	return !slices.ContainsFunc(t.partitions, func(part *partition) bool {
		begun := func(b *batch) bool { return b.tx == nil || b.tx.unplaced == 0 }
		return len(part.inflight) > 0 || part.open != nil && begun(part.open) || slices.ContainsFunc(part.queued, begun)
	})
}

// adopt brings the number of partitions to n. When partitions are added, keys move: the newer records of a key would
// go to another partition while older ones are still in flight, and could be written first. So Produce waits
// until everything older is acknowledged (quiet). Across the two partitions only time orders the records of a
// key, which is Kafka's nature; but no record is ever written before an older one of its key.
func (t *topic) adopt(n int) {
	for i := len(t.partitions); i < n; i++ {
		t.partitions = append(t.partitions, &partition{topic: t, index: int32(i)})
	}
	t.more = 0
}
