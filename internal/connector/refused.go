package connector

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// heldRecord is a record that Kafka refused after it was taken, and that waits.
type heldRecord struct {
	id, lsn      string
	bytes, limit int
}

// refused applies the policy to a record that a broker refuses after it was taken: the topic's limit was not known, or
// was lowered meanwhile. The row is gone from memory by then, so the letter is made of the record. The producer calls it
// from a goroutine of its own.
func (c *Connector) refused(r kafka.Refusal) kafka.Resolution {
	rec := r.Record()
	if r.Topic == c.cfg.DeadLetters.Topic && deadletter.IsLetter(r.Headers) { // an event's own headers may be called anything
		if smaller, ok := deadletter.Shrink(rec); ok {
			return kafka.Resolution{Action: kafka.Replace, Record: smaller}
		}
		return c.hold(r, rec)
	}
	reason := router.Reason(r.Reason)
	policy := c.cfg.Policies.For(reason)
	if policy == relay.Halt {
		return c.hold(r, rec)
	}
	k := c.caseOfRecord(r, rec)
	c.cfg.Metrics.Failed(r.Topic, r.Reason)
	fields := c.refusalFields(r, rec, k)
	c.noteBadRow(setting{deadletter.EventID(rec.Headers), reason, r.Topic}, policy, c.commitOf(r))
	if policy == relay.Skip {
		c.log.Error("Skipped an event that Kafka refuses, as router.on_bad_row says", fields...)
		c.counts.skipped.Add(1)
		return kafka.Resolution{Action: kafka.Drop}
	}
	c.log.Error("Sent an event that Kafka refuses to the dead-letter topic, as router.on_bad_row says", fields...)
	c.counts.deadLettered.Add(1)
	c.cfg.Metrics.DeadLettered(r.Reason)
	return kafka.Resolution{Action: kafka.Replace, Record: c.cfg.DeadLetters.Letter(k, time.Now())}
}

// hold lets the partition wait, and says in the log, once, which event it waits at.
func (c *Connector) hold(r kafka.Refusal, rec *router.Record) kafka.Resolution {
	k := c.caseOfRecord(r, rec)
	row := heldRecord{id: deadletter.EventID(r.Headers), lsn: c.commitOf(r), bytes: r.Bytes, limit: r.Limit}
	object := fmt.Sprintf("partition %s/%d", r.Topic, r.Partition)
	c.mu.Lock()
	if c.held == nil {
		c.held = map[string]heldRecord{}
	}
	was := c.held[object]
	c.held[object] = row
	c.mu.Unlock()
	if was.id != row.id || was.lsn != row.lsn {
		c.cfg.Metrics.Failed(r.Topic, r.Reason)
		c.log.Error("Kafka refuses an event; nothing of its partition is published until it takes it", c.refusalFields(r, rec, k)...)
	}
	return kafka.Resolution{Action: kafka.Hold}
}

// commitOf is the commit LSN of the row behind a record, as Postgres prints it.
func (c *Connector) commitOf(r kafka.Refusal) string {
	if commit, _, ok := c.tracker.Load().Transaction(r.Ticket); ok {
		return commit.String()
	}
	return ""
}

// caseOfRecord gathers what is known of the row behind a record. Without a position header it is known by its
// transaction alone.
func (c *Connector) caseOfRecord(r kafka.Refusal, rec *router.Record) *deadletter.Case {
	k := deadletter.Refused(rec, router.Reason(r.Reason), r.Bytes, r.Limit, c.cfg.Replication.Tables)
	commit, at, ok := c.tracker.Load().Transaction(r.Ticket)
	if ok {
		k.CommitTime = at
	}
	if k.Position = deadletter.Position(rec.Headers); k.Position == nil && ok {
		k.Position = fmt.Appendf(nil, "%016x", uint64(commit))
	}
	return k
}

func (c *Connector) refusalFields(r kafka.Refusal, rec *router.Record, k *deadletter.Case) []zap.Field {
	fields := []zap.Field{
		zap.String(telemetry.KeyEvent, deadletter.EventID(rec.Headers)), zap.ByteString(telemetry.KeyPosition, k.Position),
		zap.String(telemetry.KeyTopic, r.Topic), zap.Int32(telemetry.KeyPartition, r.Partition),
		zap.String(telemetry.KeyReason, r.Reason), zap.Int(telemetry.KeyBytes, r.Bytes), zap.Int("limit", r.Limit),
	}
	if lsn := c.commitOf(r); lsn != "" {
		fields = append(fields, zap.String(telemetry.KeyLSN, lsn))
	}
	return fields
}

// troubles are the producer's, with the event that a refusal is about, which only this side knows by its id and LSN.
func (c *Connector) troubles() []kafka.Trouble {
	all := c.producer.Trouble()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range all {
		t := &all[i]
		if h, ok := c.held[t.Object]; ok && (t.Kind == wire.RecordTooLarge || t.Kind == wire.Rejected) {
			t.Sentence += fmt.Sprintf(" It is event %s, LSN %s, %d bytes", h.id, h.lsn, h.bytes)
			if h.limit > 0 {
				t.Sentence += fmt.Sprintf(" where the topic takes %d", h.limit)
			}
			t.Sentence += "."
		}
	}
	return all
}
