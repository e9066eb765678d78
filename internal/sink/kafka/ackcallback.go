package kafka

import "github.com/cdc-outbox/cdc-outbox/internal/sink"

// complete hands an acknowledged batch to the goroutine that calls Acked.
func (p *Producer) complete(b *batch) {
	p.metrics.batchBytes.Observe(float64(b.size()))
	p.metrics.recordsPerBatch.Observe(float64(b.records))
	if p.tx != nil {
		p.tx.hold(b)
	} else {
		p.completed = append(p.completed, b)
		poke(p.acks)
	}
	if b.part.topic.more > 0 {
		p.announce() // Produce may wait for the topic to be quiet
	}
}

// deliver calls Acked, outside the lock so that a slow caller does not delay the sending, until quit is closed and
// nothing is left.
func (p *Producer) deliver(quit <-chan struct{}) {
	for {
		p.mu.Lock()
		batches := p.completed
		p.completed = p.spare[:0]
		p.mu.Unlock()

		if len(batches) == 0 {
			p.spare = batches
			select {
			case <-p.acks:
				continue
			case <-quit:
				return
			}
		}
		records := uint64(0)
		for i, b := range batches {
			p.cfg.Acked(sink.Delivery{
				Topic: b.part.topic.name, Partition: b.part.index, Tickets: b.tickets, Bytes: b.window,
				Tags: b.tags, BaseOffset: b.baseOffset,
			})
			records += uint64(b.records)
			b.free()
			batches[i] = nil
		}
		p.mu.Lock()
		p.spare = batches
		if p.acked += records; p.acked == p.produced {
			p.announce()
		}
		p.mu.Unlock()
	}
}

// poke sends to a channel of capacity one that only says "look again".
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
