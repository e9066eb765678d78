package consumer

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
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

// topicIDs are the topics of a generation as they are, and as they were when the group stored its offsets.
type topicIDs struct {
	known  chan struct{} // closed once the rest is read; it does not change any more
	now    map[string]topicID
	stored map[string]map[int]topicID // by topic and partition
}

// readIDs reads them before the first record, and waits for the generation's end: that of this function would be that.
func (g *generation) readIDs(over context.Context) {
	for over.Err() == nil {
		now, stored, err := g.lookUpIDs(over)
		if err == nil {
			g.ids.now, g.ids.stored = now, stored
			close(g.ids.known)
			<-over.Done()
			return
		}
		if over.Err() == nil {
			g.c.opts.Logger.Warn("asking for the ids of topics and for the group's offsets failed",
				"group", g.c.opts.Group, "error", err.Error())
		}
		sleep(over, time.Second)
	}
}

func (g *generation) lookUpIDs(over context.Context) (map[string]topicID, map[string]map[int]topicID, error) {
	ask, stored := map[string][]int{}, map[string]map[int]topicID{}
	for topic, assignments := range g.gen.Assignments {
		stored[topic] = map[int]topicID{}
		for _, a := range assignments {
			ask[topic] = append(ask[topic], a.ID)
		}
	}
	if len(ask) == 0 {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(over, idLimit)
	defer cancel()
	now, err := g.c.topicIDs(ctx, g.topics)
	if err != nil {
		return nil, nil, err
	}
	committed, err := g.c.committed(ctx, ask)
	if err != nil {
		return nil, nil, err
	}
	for topic, partitions := range committed {
		for _, o := range partitions {
			if stored[topic] != nil {
				stored[topic][o.Partition] = parseStored(o.Metadata)
			}
		}
	}
	return now, stored, nil
}

const idLimit = 10 * time.Second

// topicIDs asks for the ids of topics. It has none for topics that do not exist or whose brokers do not know ids.
func (c *Consumer) topicIDs(ctx context.Context, names []string) (map[string]topicID, error) {
	answer, err := c.client.Transport.RoundTrip(ctx, c.client.Addr, &idRequest{names: names})
	if err != nil {
		return nil, err
	}
	ids, ok := answer.(*idResponse)
	if !ok {
		return nil, fmt.Errorf("an answer of type %T", answer)
	}
	return ids.ids, nil
}

// renewed names a topic that was made again since the generation began, empty for none.
func (g *generation) renewed(over context.Context) string {
	select {
	case <-g.ids.known:
	default:
		return ""
	}
	ctx, cancel := context.WithTimeout(over, idLimit)
	defer cancel()
	ids, err := g.c.topicIDs(ctx, g.topics)
	if err != nil {
		return "" // the heartbeats end the generation if the broker does not come back
	}
	for topic, id := range ids {
		if was := g.ids.now[topic]; was != (topicID{}) && id != was {
			g.c.members.made(topic)
			return topic
		}
	}
	return ""
}

// beginAgain has a partition begin at its first record if its topic was made again, since the group's offset belongs to
// the former topic, or made while the consumer ran. It reports false if the generation ended before.
func (p *partition) beginAgain(over context.Context) bool {
	select {
	case <-over.Done():
		return false
	case <-p.ids.known:
	}
	was, now := p.ids.stored[p.topic][p.id], p.ids.now[p.topic]
	switch other := was != (topicID{}) && now != (topicID{}) && was != now; {
	case p.next >= 0 && other:
		p.c.opts.Logger.Warn("the topic was deleted and made again; its partition is read from the beginning, and "+
			"what was not read of the former topic is lost",
			"group", p.c.opts.Group, "topic", p.topic, "partition", p.id, "offset", p.next)
	case p.next == kafka.LastOffset && p.c.members.isYoung(p.topic):
		p.c.opts.Logger.Info("the topic is younger than the consumer; its partition is read from the beginning",
			"group", p.c.opts.Group, "topic", p.topic, "partition", p.id)
	default:
		return true
	}
	p.commitFrom(over, p.firstOffset, "the beginning of the topic")
	return over.Err() == nil
}
