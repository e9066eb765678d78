package connector

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// lookAgain is how often a record that its topic does not take is offered again. The producer asks for the topic's
// limit at its own pace.
const lookAgain = 5 * time.Second

// caseOf is the row at hand, for a letter.
func (c *Connector) caseOf(m *pgoutput.Message, reason router.Reason, detail string) *deadletter.Case {
	return &deadletter.Case{
		Relation: m.Relation, Tuple: m.Tuple, Position: c.reader.position, CommitTime: c.reader.commitTime,
		Reason: reason, Detail: detail,
	}
}

// deadLetter sends the letter with the row's ticket, so that the slot moves over the row only when the letter is in Kafka; in a
// transaction it is part of it. Whatever keeps Kafka from taking it is waited for: a letter is the last copy of the row
// that anybody looks at.
func (c *Connector) deadLetter(letter *router.Record, pos offsets.Position, ticket offsets.Ticket, set setting, fields []zap.Field) error {
	for {
		err := c.offer(letter, pos, ticket)
		var refused *kafka.RefusedError
		switch {
		case err == nil:
			c.leave()
			c.reader.produced = c.reader.commit
			c.counts.deadLettered.Add(1)
			c.cfg.Metrics.DeadLettered(string(set.reason))
			c.noteBadRow(set, relay.DeadLetter, pos.Commit.String())
			c.log.Error("Sent an outbox row that cannot be published to the dead-letter topic, as router.on_bad_row says",
				append(fields, zap.String(telemetry.KeyTopic, letter.Topic))...)
			return nil
		case !errors.As(err, &refused):
			return err
		}
		if smaller, ok := deadletter.Shrink(letter); ok {
			letter = smaller
			continue
		}
		if err := c.waitAt(pos, set.id, refused); err != nil {
			return err
		}
	}
}

// offer produces a record that is not on the usual way.
func (c *Connector) offer(rec *router.Record, pos offsets.Position, ticket offsets.Ticket) error {
	size := rec.Size()
	if err := c.acquire(size); err != nil {
		return err
	}
	err := c.producer.ProduceAt(c.life, rec, ticket, c.kafkaPosition(pos))
	if err != nil {
		c.window.Release(1, int64(size))
	}
	return err
}

// notTaken applies the policy to a record that ProduceAt did not take.
func (c *Connector) notTaken(t *offsets.Tracker, m *pgoutput.Message, rec *router.Record, pos offsets.Position, ticket offsets.Ticket, err error) error {
	c.window.Release(1, int64(rec.Size()))
	var refused *kafka.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	reason := router.Reason(refused.Reason)
	id := deadletter.EventID(rec.Headers)
	c.cfg.Metrics.Failed(rec.Topic, refused.Reason)
	fields, set := c.rowFields(pos, id, reason, refused.Error()), setting{id, reason, rec.Topic}
	switch c.cfg.Policies.For(reason) {
	case relay.Skip:
		return c.skip(t, pos, ticket, set, fields)
	case relay.DeadLetter:
		k := c.caseOf(m, reason, refused.Error())
		k.Record, k.Bytes, k.Limit = rec, refused.Bytes, refused.Limit
		return c.deadLetter(c.cfg.DeadLetters.Letter(k, time.Now()), pos, ticket, set, fields)
	}
	c.log.Error("Halted at an event that is larger than its topic takes; nothing after it is published either, until the topic takes it",
		append(fields, zap.String(telemetry.KeyNext, raise(refused)))...)
	for {
		if err := c.waitAt(pos, id, refused); err != nil {
			return err
		}
		err := c.offer(rec, pos, ticket)
		switch {
		case err == nil:
			c.leave()
			c.reader.produced = c.reader.commit
			return nil
		case !errors.As(err, &refused):
			return err
		}
	}
}

// waitAt stands at a record that its topic does not take. It ends by itself, after a while; the caller tries again.
func (c *Connector) waitAt(pos offsets.Position, id string, refused *kafka.RefusedError) error {
	since := time.Now()
	c.mu.Lock()
	if c.halted != nil {
		since = c.halted.Since
	}
	c.mu.Unlock()
	c.setHalted(&relay.HaltedRow{
		Position: string(c.reader.position), LSN: pos.Commit.String(), EventID: id, Reason: refused.Reason,
		Message: refused.Error(), Next: raise(refused), Since: since,
	})
	c.producer.Commit()
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.stopping:
		return errHalted
	case <-c.life.Done():
		return c.life.Err()
	}
}

// leave ends a halt that was waited out.
func (c *Connector) leave() {
	c.mu.Lock()
	was := c.halted
	c.halted = nil
	c.mu.Unlock()
	if was == nil {
		return
	}
	c.setState(relay.State{Name: relay.Streaming})
	c.log.Info("The topic takes the event now; going on", zap.String(telemetry.KeyEvent, was.EventID), zap.String(telemetry.KeyLSN, was.LSN))
}

func raise(r *kafka.RefusedError) string {
	return fmt.Sprintf("Raise max.message.bytes of topic %q to %d or more, and what its consumers fetch; it goes on by itself then. "+
		"Or restart with --router-bad-rows-too-large dead_letter, or skip.", r.Topic, r.Bytes)
}
