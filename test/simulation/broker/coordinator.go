package broker

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type txnState string

const (
	empty     txnState = "empty"
	ongoing   txnState = "ongoing"
	ending    txnState = "ending" // the markers are being written
	completed txnState = "completed"
)

// transaction is what the coordinator knows of a transactional id (TransactionMetadata).
type transaction struct {
	id        string
	producer  int64
	epoch     int16
	lastEpoch int16 // that may ask again, -1 for none: see raise and abort
	state     txnState
	commits   bool // the outcome, once it ends
	began     time.Time
	serial    uint64
	timeout   time.Duration
	parts     []*Partition
	groups    []string
}

// Epoch is the epoch of a transactional id, -1 where it is not known.
func (c *Cluster) Epoch(id string) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.txns[id]; t != nil {
		return t.epoch
	}
	return -1
}

// Fence raises the epoch of each transactional id, as anyone does who calls InitProducerID with it.
func (c *Cluster) Fence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id := range c.txns {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := c.txns[id]
		if t.state == ongoing {
			c.abort(t)
		} else {
			t.epoch++
			t.lastEpoch = -1
		}
		c.say("another client raised the epoch of %s to %d", id, t.epoch)
	}
}

func (c *Cluster) initProducerID(node int32, req *kmsg.InitProducerIDRequest) kmsg.Response {
	res := kmsg.NewPtrInitProducerIDResponse()
	res.ProducerID, res.ProducerEpoch = -1, -1
	if req.TransactionalID == nil {
		c.lastID++
		res.ProducerID, res.ProducerEpoch = c.lastID, 0
		return res
	}
	if node != c.coordinator() {
		res.ErrorCode = codeNotCoordinator
		return res
	}
	t := c.txns[*req.TransactionalID]
	if t == nil {
		if req.ProducerID >= 0 {
			res.ErrorCode = codeInvalidMapping
			return res
		}
		c.lastID++
		t = &transaction{id: *req.TransactionalID, producer: c.lastID, epoch: -1, lastEpoch: -1, state: empty}
		c.txns[t.id] = t
	}
	t.timeout = time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
	res.ErrorCode = c.raise(t, req)
	if res.ErrorCode == 0 {
		res.ProducerID, res.ProducerEpoch = t.producer, t.epoch
	}
	c.say("InitProducerID %s with %d/%d: %d/%d code %d", t.id, req.ProducerID, req.ProducerEpoch, t.producer, t.epoch,
		res.ErrorCode)
	return res
}

// raise gives the id its next epoch (TransactionCoordinator.prepareInitProducerIdTransit).
func (c *Cluster) raise(t *transaction, req *kmsg.InitProducerIDRequest) int16 {
	given := req.Version >= 3 && req.ProducerID >= 0
	switch {
	case given && req.ProducerID != t.producer:
		return codeFenced
	case t.state == ending:
		return codeConcurrent
	case t.state == ongoing: // whatever epoch was given
		c.abort(t)
		return codeConcurrent
	case !given:
		t.epoch++
		t.lastEpoch = -1
	case req.ProducerEpoch == t.epoch:
		t.lastEpoch = t.epoch
		t.epoch++
	case req.ProducerEpoch == t.lastEpoch: // the answer was lost
		return 0
	default:
		return codeFenced
	}
	t.state = empty
	return 0
}

// abort ends an open transaction that its producer has not ended, and fences the producer.
func (c *Cluster) abort(t *transaction) {
	t.lastEpoch = -1
	if c.cfg.Kafka4 {
		t.lastEpoch = t.epoch
	}
	t.epoch++
	c.finish(t, false)
}

// checkProducer is what a request of the producer meets first.
func (c *Cluster) checkProducer(node int32, id string, producer int64, epoch int16) (*transaction, int16) {
	t := c.txns[id]
	switch {
	case node != c.coordinator():
		return nil, codeNotCoordinator
	case t == nil || t.producer != producer:
		return nil, codeInvalidMapping
	case t.epoch != epoch:
		return nil, codeFenced
	case t.state == ending:
		return nil, codeConcurrent
	}
	return t, 0
}

// begin makes the transaction an open one.
func (c *Cluster) begin(t *transaction) {
	if t.state == ongoing {
		return
	}
	t.state, t.began = ongoing, time.Now()
	t.serial++
	serial := t.serial
	time.AfterFunc(t.timeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.state == ongoing && t.serial == serial {
			c.abort(t)
			c.say("%s timed out, epoch %d", t.id, t.epoch)
		}
	})
}

// finish writes the markers, after a while.
func (c *Cluster) finish(t *transaction, commit bool) {
	t.state, t.commits = ending, commit
	epoch := t.epoch
	for _, p := range t.parts {
		p.decide(t.producer, commit)
	}
	time.AfterFunc(c.cfg.MarkerTime+time.Microsecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range t.parts {
			p.mark(t.producer, epoch)
		}
		for _, g := range t.groups {
			done := c.group(g).end(t.producer, commit)
			time.AfterFunc(c.cfg.OffsetTime+time.Microsecond, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				done()
			})
		}
		t.parts, t.groups, t.state = nil, nil, completed
	})
}

func (c *Cluster) addPartitions(node int32, req *kmsg.AddPartitionsToTxnRequest) kmsg.Response {
	res := kmsg.NewPtrAddPartitionsToTxnResponse()
	t, code := c.checkProducer(node, req.TransactionalID, req.ProducerID, req.ProducerEpoch)
	var parts []*Partition
	for _, topic := range req.Topics {
		for _, i := range topic.Partitions {
			known := c.partitions[topic.Topic]
			if code == 0 && int(i) >= len(known) {
				code = codeUnknownTopic
			}
			if code == 0 {
				parts = append(parts, known[i])
			}
		}
	}
	if code == 0 {
		c.begin(t)
		for _, p := range parts {
			if !slices.Contains(t.parts, p) {
				t.parts = append(t.parts, p)
			}
		}
	}
	for _, topic := range req.Topics {
		r := kmsg.NewAddPartitionsToTxnResponseTopic()
		r.Topic = topic.Topic
		for _, i := range topic.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			p.Partition, p.ErrorCode = i, code
			r.Partitions = append(r.Partitions, p)
		}
		res.Topics = append(res.Topics, r)
	}
	return res
}

func (c *Cluster) addOffsets(node int32, req *kmsg.AddOffsetsToTxnRequest) kmsg.Response {
	res := kmsg.NewPtrAddOffsetsToTxnResponse()
	t, code := c.checkProducer(node, req.TransactionalID, req.ProducerID, req.ProducerEpoch)
	if res.ErrorCode = code; code == 0 {
		c.begin(t)
		if !slices.Contains(t.groups, req.Group) {
			t.groups = append(t.groups, req.Group)
		}
	}
	return res
}

func (c *Cluster) endTxn(node int32, req *kmsg.EndTxnRequest) kmsg.Response {
	res := kmsg.NewPtrEndTxnResponse()
	t, code := c.checkProducer(node, req.TransactionalID, req.ProducerID, req.ProducerEpoch)
	switch {
	case code != 0:
	case t.state == ongoing:
		c.finish(t, req.Commit)
	case t.state == completed && t.commits == req.Commit: // the answer was lost
	default:
		code = codeInvalidTxnState
	}
	res.ErrorCode = code
	c.say("EndTxn %s epoch %d commit %v: code %d", req.TransactionalID, req.ProducerEpoch, req.Commit, code)
	return res
}

// verify asks the coordinator whether a batch belongs to an open transaction (KIP-890).
func (c *Cluster) verify(txid *string, b *kmsg.RecordBatch, p *Partition) int16 {
	if txid == nil {
		return codeInvalidTxnState
	}
	t := c.txns[*txid]
	switch {
	case t == nil || t.producer != b.ProducerID:
		return codeInvalidMapping
	case t.epoch != b.ProducerEpoch:
		return codeInvalidEpoch
	case t.state != ongoing || !slices.Contains(t.parts, p):
		return codeInvalidTxnState
	}
	return 0
}

// Describe is for a trace.
func (c *Cluster) Describe() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := ""
	for id, t := range c.txns {
		out += fmt.Sprintf("%s: producer %d epoch %d %s\n", id, t.producer, t.epoch, t.state)
	}
	return out
}
