package kafka

import (
	"context"
	"math"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// tight reports whether the record, of this Size, may be larger than the topic allows: a bound that costs next to
// nothing.
func (t *topic) tight(rec *router.Record, size int) bool {
	return t.max > 0 && size+wire.HeaderSize+6*len(rec.Headers) > t.max
}

// fits returns a RefusedError for a record that the topic cannot take even alone. The limit applies to the batch as it
// would be sent: a broker judges it by that size before anything else, whatever compression the topic has
// (UnifiedLog.analyzeAndValidateRecords).
//
// The limit was asked for when the topic was first used, and may have been raised since, so a refusal is by one that
// was asked for lately. fits gives up the lock.
func (p *Producer) fits(ctx context.Context, t *topic, rec *router.Record) error {
	p.mu.Unlock()
	size, err := p.cfg.sizeAlone(rec)
	p.mu.Lock()
	if err != nil {
		return err
	}
	for t.max > 0 && size > t.max {
		if time.Since(t.describedAt) < p.cfg.pace.slow {
			return &sink.RefusedError{
				Topic: t.name, Bytes: size, Limit: t.max, Reason: sink.TooLarge,
				Remedy: fault.Do("", p.cfg.RaiseLimit(t.name, size)),
			}
		}
		p.flush()
		t.described = false
		p.control.wantMetadata()
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sizeAlone is the size of a batch with this record alone.
func (c *Config) sizeAlone(rec *router.Record) (int, error) {
	b := newBatch(nil)
	defer b.free()
	b.append(rec, 0, math.MaxInt)
	if err := b.finish(c.codec); err != nil {
		return 0, err
	}
	return b.size(), nil
}
