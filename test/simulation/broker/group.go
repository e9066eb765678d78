package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// group holds the offsets of a consumer group, with what open transactions are about to change.
type group struct {
	offsets map[string]offset // by topic, partition 0
	pending map[int64]map[string]offset
	closing []*closing
}

// closing are the offsets of a transaction that has ended, until the group's coordinator has read its marker.
type closing struct {
	offsets map[string]offset
	commit  bool
}

type offset struct {
	at       int64
	metadata string
}

func (c *Cluster) group(name string) *group {
	g := c.groups[name]
	if g == nil {
		g = &group{offsets: map[string]offset{}, pending: map[int64]map[string]offset{}}
		c.groups[name] = g
	}
	return g
}

// Metadata is what is committed for a group, empty for nothing.
func (c *Cluster) Metadata(name, topic string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.groups[name]; g != nil {
		return g.offsets[topic].metadata
	}
	return ""
}

// end takes what the producer's transaction is about to change out of the open ones. The function it returns completes
// the change.
func (g *group) end(producer int64, commit bool) func() {
	this := &closing{g.pending[producer], commit}
	delete(g.pending, producer)
	g.closing = append(g.closing, this)
	return func() {
		if this.commit {
			maps.Copy(g.offsets, this.offsets)
		}
		g.closing = slices.DeleteFunc(g.closing, func(other *closing) bool { return other == this })
	}
}

// unstable reports whether a transaction is about to change the offset.
func (g *group) unstable(topic string) bool {
	for _, pending := range g.pending {
		if _, ok := pending[topic]; ok {
			return true
		}
	}
	return slices.ContainsFunc(g.closing, func(c *closing) bool { _, ok := c.offsets[topic]; return ok })
}

func (c *Cluster) txnOffsetCommit(node int32, req *kmsg.TxnOffsetCommitRequest) kmsg.Response {
	res := kmsg.NewPtrTxnOffsetCommitResponse()
	code := int16(0)
	t := c.txns[req.TransactionalID]
	switch {
	case node != c.coordinator():
		code = codeNotCoordinator
	case t == nil || t.producer != req.ProducerID:
		code = codeInvalidMapping
	case t.epoch != req.ProducerEpoch:
		code = codeInvalidEpoch
	case t.state != ongoing || !slices.Contains(t.groups, req.Group):
		code = codeInvalidTxnState
	}
	for _, topic := range req.Topics {
		r := kmsg.NewTxnOffsetCommitResponseTopic()
		r.Topic = topic.Topic
		for _, part := range topic.Partitions {
			p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = part.Partition, code
			if c.partitions[topic.Topic] == nil {
				p.ErrorCode = codeUnknownTopic
			}
			if p.ErrorCode == 0 {
				g := c.group(req.Group)
				if g.pending[req.ProducerID] == nil {
					g.pending[req.ProducerID] = map[string]offset{}
				}
				g.pending[req.ProducerID][topic.Topic] = offset{part.Offset, value(part.Metadata)}
			}
			r.Partitions = append(r.Partitions, p)
		}
		res.Topics = append(res.Topics, r)
	}
	return res
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (c *Cluster) offsetCommit(node int32, req *kmsg.OffsetCommitRequest) kmsg.Response {
	res := kmsg.NewPtrOffsetCommitResponse()
	for _, topic := range req.Topics {
		r := kmsg.NewOffsetCommitResponseTopic()
		r.Topic = topic.Topic
		for _, part := range topic.Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition = part.Partition
			switch {
			case node != c.coordinator():
				p.ErrorCode = codeNotCoordinator
			case c.partitions[topic.Topic] == nil:
				p.ErrorCode = codeUnknownTopic
			default:
				c.group(req.Group).offsets[topic.Topic] = offset{part.Offset, value(part.Metadata)}
			}
			r.Partitions = append(r.Partitions, p)
		}
		res.Topics = append(res.Topics, r)
	}
	return res
}

func (c *Cluster) offsetFetch(node int32, req *kmsg.OffsetFetchRequest) kmsg.Response {
	res := kmsg.NewPtrOffsetFetchResponse()
	if node != c.coordinator() {
		res.ErrorCode = codeNotCoordinator
		return res
	}
	g := c.group(req.Group)
	for _, topic := range req.Topics {
		r := kmsg.NewOffsetFetchResponseTopic()
		r.Topic = topic.Topic
		for _, i := range topic.Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = i, -1, -1, kmsg.StringPtr("")
			if o, ok := g.offsets[topic.Topic]; ok {
				p.Offset, p.Metadata = o.at, kmsg.StringPtr(o.metadata)
			}
			if req.RequireStable && g.unstable(topic.Topic) {
				p.ErrorCode = codeUnstableOffset
			}
			r.Partitions = append(r.Partitions, p)
		}
		res.Topics = append(res.Topics, r)
	}
	return res
}
