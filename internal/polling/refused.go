package polling

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// refused applies the policy to a record that a broker refuses after it was taken. The producer calls it from a goroutine
// of its own; the row is not at hand there, so a letter is made of the record.
func (r *Relay) refused(x kafka.Refusal) kafka.Resolution {
	rec := x.Record()
	id := deadletter.EventID(x.Headers)
	fields := []zap.Field{
		zap.String(logkey.Event, id), zap.String(logkey.Topic, x.Topic), zap.Int32(logkey.Partition, x.Partition),
		zap.String(logkey.Reason, x.Reason), zap.Int(logkey.Bytes, x.Bytes), zap.Int("limit", x.Limit),
	}
	policy := r.cfg.Policies.For(router.Reason(x.Reason))
	if x.Topic == r.cfg.DeadLetters.Topic && deadletter.IsLetter(x.Headers) {
		if smaller, ok := deadletter.Shrink(rec); ok {
			return kafka.Resolution{Action: kafka.Replace, Record: smaller}
		}
		policy = relay.Halt
	}
	switch policy {
	case relay.Skip:
		r.cfg.Metrics.Failed(x.Topic, x.Reason)
		r.log.Error("Skipped an event that Kafka refuses, as router.on_bad_row says", fields...)
		r.counts.skipped.Add(1)
		return kafka.Resolution{Action: kafka.Drop}
	case relay.DeadLetter:
		r.cfg.Metrics.Failed(x.Topic, x.Reason)
		r.log.Error("Sent an event that Kafka refuses to the dead-letter topic, as router.on_bad_row says", fields...)
		r.counts.deadLettered.Add(1)
		r.cfg.Metrics.DeadLettered(x.Reason)
		return kafka.Resolution{Action: kafka.Replace, Record: r.cfg.DeadLetters.Letter(r.caseOf(x, rec), time.Now())}
	}
	object := fmt.Sprintf("partition %s/%d", x.Topic, x.Partition)
	r.mu.Lock()
	if r.held == nil {
		r.held = map[string]string{}
	}
	told := r.held[object] == id
	r.held[object] = id
	r.mu.Unlock()
	if !told {
		r.cfg.Metrics.Failed(x.Topic, x.Reason)
		r.log.Error("Kafka refuses an event; nothing of its partition is published until it takes it", fields...)
	}
	return kafka.Resolution{Action: kafka.Hold}
}

func (r *Relay) caseOf(x kafka.Refusal, rec *router.Record) *deadletter.Case {
	k := deadletter.Refused(rec, router.Reason(x.Reason), x.Bytes, x.Limit, r.cfg.Tables)
	w := r.workers[x.Ticket>>ticketBits]
	k.Position = position(w.batch.sequenceOf(int(uint32(x.Ticket))))
	return k
}

// troubles are the producer's, with the event that a refusal is about, which only this side knows by its id.
func (r *Relay) troubles() []kafka.Trouble {
	all := r.producer.Trouble()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		t := &all[i]
		if id, ok := r.held[t.Object]; ok && (t.Kind == wire.RecordTooLarge || t.Kind == wire.Rejected) {
			t.Sentence += fmt.Sprintf(" It is event %s.", id)
		}
	}
	return all
}
