package badrow

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// heldRecord is a record that Kafka refused after it was taken, and that waits.
type heldRecord struct {
	id, lsn      string
	position     string // of the row; empty: not known, or it is a letter
	bytes, limit int
	decided      *relay.Decision // an operator's decision about it
}

// Refused applies the policy to a record that a broker refuses after it was taken: the topic's limit was not known, or
// was lowered meanwhile. The row is no longer in memory, so the letter is built from the record. letter holds the
// source's facts about the record's row, lsn the LSN of its commit, empty if there is none.
func (h *Handler) Refused(r sink.Refusal, rec *router.Record, letter *deadletter.Case, lsn string) sink.Resolution {
	if r.Topic == h.Letters.Topic && deadletter.IsLetter(r.Headers) { // an event's own headers may have any name
		if smaller, ok := deadletter.Shrink(rec); ok {
			return sink.Resolution{Action: sink.Replace, Record: smaller}
		}
		return h.holdPartition(r, letter, heldRecord{lsn: lsn})
	}
	row := Row{
		EventID: relay.Storable(deadletter.EventID(rec.Headers)), Reason: router.Reason(r.Reason), Topic: r.Topic,
		LSN: lsn, Position: []byte(rowOf(letter.Position)),
	}
	policy := h.Policies.For(row.Reason)
	by := "router.on_bad_row says"
	if policy == relay.Halt {
		d, ok := h.decision(partitionOf(r), row)
		if !ok {
			return h.holdPartition(r, letter, heldRecord{lsn: lsn, position: string(row.Position)})
		}
		policy, by = d.Action, "an operator decided" // it has failed, and was counted, when it was held
	} else {
		h.Failed(row)
	}
	h.note(row, policy, deadletter.EventType(rec.Headers))
	fields := refusalFields(r, letter, lsn)
	if policy == relay.Skip {
		h.Logger.Error("skipped an event that Kafka refuses", append(fields, zap.String(logkey.Cause, by))...)
		h.skipped.Add(1)
		return sink.Resolution{Action: sink.Drop}
	}
	h.Logger.Error("sent an event that Kafka refuses to the dead-letter topic", append(fields,
		zap.String(logkey.Cause, by))...)
	h.deadLettered.Add(1)
	h.Metrics.DeadLettered(r.Reason)
	return sink.Resolution{Action: sink.Replace, Record: h.Letters.Letter(letter, time.Now())}
}

// holdPartition makes the partition wait. The log names the event at which it waits, once.
func (h *Handler) holdPartition(r sink.Refusal, letter *deadletter.Case, record heldRecord) sink.Resolution {
	record.id, record.bytes, record.limit = relay.Storable(deadletter.EventID(r.Headers)), r.Bytes, r.Limit
	object := partitionOf(r)
	h.mu.Lock()
	if h.held == nil {
		h.held = map[string]heldRecord{}
	}
	was := h.held[object]
	h.held[object] = record
	h.mu.Unlock()
	if was.id != record.id || was.lsn != record.lsn {
		h.Metrics.Failed(r.Topic, r.Reason)
		h.Logger.Error("Kafka refuses an event; nothing of its partition is published until Kafka takes the event",
			refusalFields(r, letter, record.lsn)...)
	}
	return sink.Resolution{Action: sink.Hold}
}

// partitionOf is the producer's name of the partition.
func partitionOf(r sink.Refusal) string {
	if r.Partition < 0 {
		return fmt.Sprintf("topic %q", r.Topic)
	}
	return fmt.Sprintf("partition %s/%d", r.Topic, r.Partition)
}

func refusalFields(r sink.Refusal, letter *deadletter.Case, lsn string) []zap.Field {
	fields := []zap.Field{
		zap.String(logkey.Event, deadletter.EventID(r.Headers)), zap.ByteString(logkey.Position, letter.Position),
		zap.String(logkey.Topic, r.Topic), zap.Int32(logkey.Partition, r.Partition),
		zap.String(logkey.Reason, r.Reason), zap.Int(logkey.Bytes, r.Bytes), zap.Int(logkey.Limit, r.Limit),
	}
	if r.Words != "" {
		fields = append(fields, zap.String(logkey.Answer, r.Words))
	}
	if lsn != "" {
		fields = append(fields, zap.String(logkey.LSN, lsn))
	}
	return fields
}

// Name adds to the producer's troubles the event that a refusal is about. The producer knows no event.
func (h *Handler) Name(all []sink.Trouble) []sink.Trouble {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range all {
		t := &all[i]
		if r, ok := h.held[t.Object]; ok && refusal(t) {
			t.Sentence += " It is " + r.String() + "."
			r.offer(t)
		}
	}
	return all
}

func (r heldRecord) String() string {
	text := "event " + r.id
	if r.lsn != "" {
		text += ", LSN " + r.lsn
	}
	if r.bytes > 0 {
		text += fmt.Sprintf(", %d bytes", r.bytes)
	}
	if r.limit > 0 {
		text += fmt.Sprintf(" where the topic takes %d", r.limit)
	}
	return text
}
