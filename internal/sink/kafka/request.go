package kafka

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// request is one Produce request: at most one batch per partition.
type request struct {
	batches []*batch  // ordered by topic and partition
	orders  []uint64  // of the batches
	at      time.Time // when it was made
	sentAt  time.Time // when it went to the socket; the writer's until the request is in conn.sent
	id      int32     // correlation id
	version int16

	generation uint64 // the producer's when it was made

	transactionalID string // empty for none
}

// arrange orders the batches by their topics and partitions: batches of a topic are next to each other, as the format
// wants it.
func (r *request) arrange() {
	for _, b := range r.batches {
		b.order = b.part.topic.order(b.part.index)
	}
	slices.SortFunc(r.batches, func(a, b *batch) int { return cmp.Compare(a.order, b.order) })
	r.orders = make([]uint64, len(r.batches))
	for i, b := range r.batches {
		r.orders[i] = b.order
	}
}

// order is the place of a partition's batch in a request.
func (t *topic) order(index int32) uint64 { return uint64(t.number)<<32 | uint64(uint32(index)) }

// unanswered stands for no error code.
const unanswered = math.MinInt16

// match returns the code for each of the request's batches, and notes where in the log they are, -1 with an error and
// with a repeat that the broker recognizes but whose offset it has forgotten, and the broker's words about an
// error. A broker's answer has an order of its own, so each batch is searched for.
func (r *request) match(res *wire.ProduceAnswer, topics map[string]*topic) ([]int16, error) {
	codes := make([]int16, len(r.batches))
	for i := range codes {
		codes[i] = unanswered
	}
	found := 0
	for i := range res.Topics {
		t := topics[string(res.Topics[i].Name)]
		if t == nil {
			continue
		}
		for j := range res.Topics[i].Partitions {
			answer := &res.Topics[i].Partitions[j]
			at, ok := slices.BinarySearch(r.orders, t.order(answer.Index))
			if ok && codes[at] == unanswered {
				codes[at] = answer.Code
				r.batches[at].baseOffset, r.batches[at].words = answer.BaseOffset, answer.Words()
				found++
			}
		}
	}
	if found != len(r.batches) {
		return nil, fmt.Errorf("the Produce answer names %d of the request's %d partitions", found, len(r.batches))
	}
	return codes, nil
}

// mostCopied is the payload up to which a batch is copied into the frame. One buffer more costs the kernel more than
// the copy of a small batch.
const mostCopied = 4 << 10

// frame is a Produce request as a list of buffers: what lies between the batches is encoded here, with small batches;
// the others are taken from where they lie. kafka-go's rawproduce would copy each batch into its pages first.
//
// Versions 3 to 8 share one format (https://kafka.apache.org/protocol#The_Messages_Produce):
//
//	size int32 · api_key int16 · api_version int16 · correlation_id int32 · client_id nullable string ·
//	transactional_id nullable string · acks int16 · timeout_ms int32 ·
//	topics int32, {name string · partitions int32, {index int32 · records int32, bytes}…}…
type frame struct {
	scratch []byte
	buffers net.Buffers
}

// encode lays out the request. The result is valid until the next encode.
func (f *frame) encode(r *request, clientID string, timeout time.Duration) net.Buffers {
	f.buffers = f.buffers[:0]
	f.scratch = slices.Grow(f.scratch[:0], f.framing(r, clientID)) // never moves while buffers point into it
	be := binary.BigEndian

	f.scratch = be.AppendUint32(f.scratch, 0) // size, below
	f.scratch = be.AppendUint16(f.scratch, uint16(protocol.Produce))
	f.scratch = be.AppendUint16(f.scratch, uint16(r.version))
	f.scratch = be.AppendUint32(f.scratch, uint32(r.id))
	f.scratch = wire.AppendString(f.scratch, clientID)
	if r.transactionalID == "" {
		f.scratch = be.AppendUint16(f.scratch, 0xffff) // null
	} else {
		f.scratch = wire.AppendString(f.scratch, r.transactionalID)
	}
	f.scratch = be.AppendUint16(f.scratch, 0xffff) // acks: all in-sync replicas
	f.scratch = be.AppendUint32(f.scratch, uint32(timeout.Milliseconds()))
	f.scratch = be.AppendUint32(f.scratch, uint32(countTopics(r.batches)))

	total, from := 0, 0
	var topic *topic
	for i, b := range r.batches {
		if b.part.topic != topic {
			topic = b.part.topic
			f.scratch = wire.AppendString(f.scratch, topic.name)
			f.scratch = be.AppendUint32(f.scratch, uint32(countPartitions(r.batches[i:])))
		}
		f.scratch = be.AppendUint32(f.scratch, uint32(b.part.index))
		f.scratch = be.AppendUint32(f.scratch, uint32(b.size()))
		if b.payload <= mostCopied {
			f.scratch = append(f.scratch, b.header[:]...)
			for c := range b.chunks() {
				f.scratch = append(f.scratch, c...)
			}
			continue
		}
		f.buffers = append(f.buffers, f.scratch[from:len(f.scratch):len(f.scratch)], b.header[:])
		from = len(f.scratch)
		for c := range b.chunks() {
			f.buffers = append(f.buffers, c)
		}
		total += b.size()
	}
	if from < len(f.scratch) {
		f.buffers = append(f.buffers, f.scratch[from:])
	}
	be.PutUint32(f.scratch, uint32(len(f.scratch)+total-4))
	return f.buffers
}

// framing is an upper bound for everything but the batches that are not copied.
func (f *frame) framing(r *request, clientID string) int {
	n := 36 + len(clientID) + len(r.transactionalID)
	for _, b := range r.batches {
		n += 14 + len(b.part.topic.name)
		if b.payload <= mostCopied {
			n += b.size()
		}
	}
	return n
}

func countTopics(batches []*batch) int {
	n := 0
	for i, b := range batches {
		if i == 0 || b.part.topic != batches[i-1].part.topic {
			n++
		}
	}
	return n
}

// countPartitions counts the leading batches of one topic.
func countPartitions(batches []*batch) int {
	n := 0
	for n < len(batches) && batches[n].part.topic == batches[0].part.topic {
		n++
	}
	return n
}
