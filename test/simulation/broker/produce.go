package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// remembered is how many batches of a producer a partition recognizes (ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const remembered = 5

// maxBatch is max.message.bytes, as Kafka has it where nothing else is set.
const maxBatch = 1048588

// producerState is what a partition knows of a producer (ProducerStateManager).
type producerState struct {
	epoch   int16
	batches []batchState // at most remembered
	last    int32        // sequence, -1 before the first of the epoch
	txn     *outcome     // of the records of the open transaction
}

type batchState struct {
	first, last int32
	offset      int64
}

func (c *Cluster) produce(node int32, req *kmsg.ProduceRequest, fate Fate) kmsg.Response {
	res := kmsg.NewPtrProduceResponse()
	for _, topic := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic = topic.Topic
		for _, part := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.BaseOffset = part.Partition, -1
			switch {
			case fate.Code != 0 && !fate.After:
				p.ErrorCode = fate.Code
			default:
				p.BaseOffset, p.ErrorCode = c.appendTo(node, topic.Topic, part.Partition, part.Records,
					req.TransactionID)
				if fate.Code != 0 && p.ErrorCode == 0 {
					p.ErrorCode, p.BaseOffset = fate.Code, -1
				}
			}
			t.Partitions = append(t.Partitions, p)
		}
		res.Topics = append(res.Topics, t)
	}
	return res
}

func (c *Cluster) appendTo(node int32, topic string, index int32, raw []byte, txid *string) (int64, int16) {
	partitions := c.partitions[topic]
	if int(index) >= len(partitions) {
		return -1, codeUnknownTopic
	}
	p := partitions[index]
	if p.leader != node {
		return -1, codeNotLeader
	}
	if len(raw) > maxBatch {
		return -1, codeTooLarge
	}
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		return -1, 2
	}
	transactional := b.Attributes&(1<<4) != 0
	if transactional {
		if code := c.verify(txid, &b, p); code != 0 {
			return -1, code
		}
	}
	offset, code := p.append(&b, transactional)
	if code != 0 {
		c.say("%s/%d refuses producer %d epoch %d sequence %d: %d", topic, index, b.ProducerID, b.ProducerEpoch,
			b.FirstSequence, code)
		return -1, code
	}
	if offset < 0 { // a repeat
		return -offset - 1, 0
	}
	from := len(p.Log)
	rest := b.Records
	for range b.NumRecords {
		var r kmsg.Record
		if err := r.ReadFrom(rest); err != nil {
			return -1, 2
		}
		rest = rest[int(r.Length)+varintLength(r.Length):]
		p.Log = append(p.Log, Record{
			Key: string(r.Key), Value: string(r.Value), Producer: b.ProducerID, Epoch: b.ProducerEpoch, At: time.Now(),
			txn: p.last[b.ProducerID].txn,
		})
	}
	if c.Appended != nil {
		c.Appended(p, p.Log[from:])
	}
	return offset, 0
}

// varintLength is how many bytes a zigzag varint takes.
func varintLength(v int32) int {
	n := 1
	for u := uint32(v)<<1 ^ uint32(v>>31); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// append judges a batch by its producer id, epoch and sequence (ProducerAppendInfo). A negative offset is that of a
// repeat, -offset-1.
func (p *Partition) append(b *kmsg.RecordBatch, transactional bool) (int64, int16) {
	first := b.FirstSequence
	last := int32((int64(first) + int64(b.NumRecords) - 1) & 0x7fffffff)
	st := p.last[b.ProducerID]
	switch {
	case st == nil: // whatever sequence a producer that is not known begins with
		st = &producerState{epoch: b.ProducerEpoch}
		p.last[b.ProducerID] = st
	case b.ProducerEpoch < st.epoch:
		return 0, codeInvalidEpoch
	case b.ProducerEpoch > st.epoch:
		if first != 0 {
			return 0, codeOutOfOrder
		}
		*st = producerState{epoch: b.ProducerEpoch}
	default:
		for _, known := range st.batches {
			if known.first == first && known.last == last {
				return -known.offset - 1, 0
			}
		}
		if first != int32((int64(st.last)+1)&0x7fffffff) {
			return 0, codeOutOfOrder
		}
	}
	if transactional && st.txn == nil {
		st.txn = &outcome{}
	}
	offset := int64(len(p.Log))
	st.last = last
	st.batches = append(st.batches, batchState{first, last, offset})
	if len(st.batches) > remembered {
		st.batches = st.batches[1:]
	}
	return offset, 0
}

// decide notes how the producer's transaction ends, which is settled before the markers are written.
func (p *Partition) decide(id int64, committed bool) {
	if st := p.last[id]; st != nil && st.txn != nil {
		st.txn.committed.Store(committed)
	}
}

// mark writes the marker of the producer's transaction.
func (p *Partition) mark(id int64, epoch int16) {
	st := p.last[id]
	if st == nil {
		st = &producerState{epoch: epoch, last: -1}
		p.last[id] = st
	}
	st.txn = nil
	if epoch > st.epoch {
		*st = producerState{epoch: epoch, last: -1}
	}
}
