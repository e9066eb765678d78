package kafka

import (
	"fmt"
	"math"
	"slices"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// minBatchLimit is how far refusals can lower the size at which batches are sealed.
const minBatchLimit = 4 << 10

// split answers a refusal of the batch at the head of the queue, for its size or its content: it is replaced by
// its two halves, which share its range of sequence numbers, so that the numbers of everything after it stay right.
// That goes on until the record to blame is alone, and nothing may overtake it: see refuse.
//
// Size and content are checked before anything is appended, so the whole is not in the log, with one exception: the
// topic's rules were tightened after an append whose answer got lost. The broker then answers the first half with 45,
// and the sequences start over, with repeats.
func (p *Producer) split(part *partition, cause wire.Verdict) {
	whole := part.queued[0]
	size := whole.size()
	if cause.Code == wire.InvalidTimestamp && !p.cfg.KeepTimestamps {
		if err := p.refusedTimestamp(part, cause); err != nil {
			p.unreadable(part, size, err)
		}
		return
	}
	if whole.records == 1 {
		p.refuse(part, cause)
		return
	}
	left, right, err := whole.halves()
	if err != nil {
		p.unreadable(part, size, err)
		return
	}
	p.metrics.splits.Inc()
	p.log.Info("split a batch that the topic does not take", zap.Stringer(logkey.Partition, part),
		zap.String(logkey.Cause, cause.Name),
		zap.Int(logkey.Bytes, size), zap.Int32(logkey.Records, whole.records), zap.Int(logkey.Limit, part.topic.limit))
	part.pending += left.size() + right.size() - size
	part.queued = slices.Replace(part.queued, 0, 1, left, right)
	whole.free()

	if cause.Trouble != sink.RecordTooLarge {
		return
	}
	// The limit has changed or could not be read: ask again, and until then seal below the refused size.
	part.topic.limit = min(part.topic.limit, max(minBatchLimit, left.size(), right.size()))
	part.topic.described = false
	p.control.wantMetadata()
}

// unreadable ends Run: a batch of our own cannot be taken apart.
func (p *Producer) unreadable(part *partition, size int, err error) {
	p.fail(&fault.Error{
		Object: fmt.Sprintf("partition %s", part), Err: fmt.Errorf("take a batch of %d bytes apart: %w", size, err),
		Next: "This is a bug; please report it.",
	})
}

// halves returns two uncompressed batches with the records of b. b is unchanged.
func (b *batch) halves() (left, right *batch, err error) {
	data, err := b.expand()
	if err != nil {
		return nil, nil, err
	}
	left, right = newBatch(b.part), newBatch(b.part)
	left.tx, right.tx = b.tx, b.tx
	left.made, right.made = b.made, b.made
	middle := b.records / 2
	for i := range b.records {
		var rec rawRecord
		if rec, data, err = nextRecord(data); err != nil {
			left.free()
			right.free()
			return nil, nil, err
		}
		half := left
		if i >= middle {
			half = right
		}
		half.appendBody(rec.rest, b.firstTimestamp+rec.timestampDelta, b.tickets[i], math.MaxInt)
		if half == left {
			decoded, err := rec.decode()
			if err != nil {
				left.free()
				right.free()
				return nil, nil, err
			}
			left.window += int64(decoded.Size())
		}
	}
	right.window = b.window - left.window
	for _, t := range b.tags {
		if t.Record < middle {
			left.tags = append(left.tags, t)
		} else {
			right.tags = append(right.tags, sink.Tag{Record: t.Record - middle, Tag: t.Tag})
		}
	}
	if b.sequenced {
		left.assign(b.identity, b.sequence)
		right.assign(b.identity, advance(b.sequence, left.records))
	}
	return left, right, nil
}

// rawRecord is an encoded record taken apart as far as splitting needs it.
type rawRecord struct {
	timestampDelta int64
	rest           []byte // key, value and headers
}

// nextRecord takes the first record off data.
func nextRecord(data []byte) (rec rawRecord, rest []byte, err error) {
	c := wire.NewCursor(data)
	r := wire.NewCursor(c.Bytes(int(c.Varint())))
	r.Bytes(1) // attributes
	rec.timestampDelta = r.Varint()
	r.Varint() // offset delta
	if c.Bad || r.Bad {
		return rec, nil, fmt.Errorf("a record that is not whole at %d bytes from the end", len(data))
	}
	rec.rest = r.B
	return rec, c.B, nil
}
