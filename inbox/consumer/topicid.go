package consumer

import (
	"context"
	"encoding/hex"
	"time"
)

// topicID identifies a topic for as long as it exists: a topic that is deleted and made again under its name has
// another one (KIP-516). The zero value is not known: brokers before 2.8, and clusters that were not upgraded for it.
type topicID [16]byte

// The group stores the id with each offset, as the offset's metadata: an offset means nothing in another topic.
const storedPrefix = "topic-id="

func (id topicID) stored() string {
	if id == (topicID{}) {
		return ""
	}
	return storedPrefix + hex.EncodeToString(id[:])
}

// parseStored returns the id of an offset's metadata, the zero value if it has none.
func parseStored(metadata string) (id topicID) {
	if len(metadata) == len(storedPrefix)+2*len(id) && metadata[:len(storedPrefix)] == storedPrefix {
		if _, err := hex.Decode(id[:], []byte(metadata[len(storedPrefix):])); err != nil {
			return topicID{}
		}
	}
	return id
}

// beginning has the group's offsets in partitions that were assigned together.
type beginning struct {
	known  chan struct{} // closed once stored is; it does not change any more
	stored map[topicPartition]stored
}

// ask asks for it, for as long as it takes.
func (b *beginning) ask(over context.Context, c *Consumer, of []topicPartition) {
	for over.Err() == nil {
		found, err := c.cluster.stored(over, c.opts.Group, of)
		if err == nil {
			b.stored = found
			close(b.known)
			return
		}
		if over.Err() == nil {
			c.opts.Logger.Warn("asking for the group's offsets failed", "group", c.opts.Group, "error", err.Error())
		}
		sleep(over, time.Second)
	}
}

// begin finds the offset to begin with: the group's, unless the topic was made again since the group stored it, since
// then it belongs to the former topic. It reports false if the assignment ended before.
func (p *partition) begin(over context.Context) bool {
	select {
	case <-over.Done():
		return false
	case <-p.from.known:
	}
	was := p.from.stored[p.topicPartition]
	again := was.id != (topicID{}) && p.of != (topicID{}) && was.id != p.of
	switch fromEnd := p.c.opts.FromEnd; {
	case was.next >= 0 && again:
		p.c.opts.Logger.Warn("the topic was deleted and made again; its partition is read from the beginning, and "+
			"what was not read of the former topic is lost",
			"group", p.c.opts.Group, "topic", p.topic, "partition", p.id, "offset", was.next)
		p.commitFrom(over, p.firstOffset, "the beginning of the topic")
	case was.next >= 0:
		p.next = was.next
		p.settled(p.next)
	case fromEnd && p.c.members.isYoung(p.topic):
		p.c.opts.Logger.Info("the topic is younger than the consumer; its partition is read from the beginning",
			"group", p.c.opts.Group, "topic", p.topic, "partition", p.id)
		p.commitFrom(over, p.firstOffset, "the beginning of the topic")
	case fromEnd:
		p.commitFrom(over, p.lastStableOffset, "the end of the partition")
	}
	return over.Err() == nil
}
