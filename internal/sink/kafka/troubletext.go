package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// This file turns causes into the sentences that operators read. Nothing here quotes a record.

// report records why the partition waits.
func (p *Producer) report(part *partition, cause wire.Verdict) {
	if cause.Trouble == "" {
		return
	}
	if p.tx != nil && part.mayVerify(cause, p.cfg.pace.verifying) {
		return
	}
	topic := part.topic.name
	sentence := fmt.Sprintf("The broker answers %s.", cause.Name)
	var remedy fault.Remedy
	switch cause.Trouble {
	case sink.NoLeader:
		sentence, remedy = p.cfg.leaderless(topic, cause)
	case sink.NotEnoughReplicas:
		sentence = fmt.Sprintf("Too few replicas are in sync to acknowledge (%s).", cause.Name)
		remedy = fault.Do("Start the missing brokers. The command shows min.insync.replicas and the replicas in sync.",
			p.cfg.Command("kafka-topics", "--describe --topic "+topic))
	case sink.NotAuthorized:
		sentence = fmt.Sprintf("Writing is not allowed (%s).", cause.Name)
		remedy = p.cfg.AllowWrite(topic)
	case sink.RecordTooLarge:
		size := part.queued[0].size()
		sentence = fmt.Sprintf("A record of %d bytes is larger than the topic allows (%s); nothing overtakes it.", size,
			cause.Name)
		remedy = fault.Do("Let the topic take records of that size.", p.cfg.RaiseLimit(topic, size))
	case sink.Rejected:
		sentence, remedy = p.cfg.rejected(part, cause)
	}
	object := part.object()
	if part.maySettle(cause, p.cfg.pace.settling) {
		part.trouble.hear(cause.Trouble, object, sentence, remedy)
		return
	}
	part.trouble.speak()
	part.trouble.set(&p.troubles, cause.Trouble, object, sentence, remedy)
}

// leaderless words that no broker writes to the partition.
func (c *Config) leaderless(topic string, cause wire.Verdict) (string, fault.Remedy) {
	if cause.Code == wire.StorageError {
		return fmt.Sprintf("The leader's disk fails (%s).", cause.Name),
			fault.Do("Look at the broker's log and disk. The command shows the directories that each broker can use.",
				c.Command("kafka-log-dirs", "--describe --topic-list "+topic))
	}
	return fmt.Sprintf("No broker takes records as the partition's leader (%s).", cause.Name),
		fault.Do("Look at the partition's leader and replicas.",
			c.Command("kafka-topics", "--describe --topic "+topic))
}

// rejected words the refusal of the batch at the head of the queue, or of its cause.
func (c *Config) rejected(part *partition, cause wire.Verdict) (sentence string, remedy fault.Remedy) {
	if cause.Code == wire.InvalidTimestamp {
		return c.timestampRefused(part, cause)
	}
	sentence = fmt.Sprintf("The broker answers %s.", cause.Name)
	if cause.Action == wire.Mute || cause.Action == wire.Split {
		if words := part.queued[0].words; words != "" {
			sentence = fmt.Sprintf("The broker answers %s: %q.", cause.Name, words)
		}
		remedy = fault.Do("Look for the partition in the broker's log. A compacted topic takes no record without " +
			"a key; a message format, timestamp or policy setting of the topic may refuse the record.")
	}
	return sentence, remedy
}

// maySettle reports whether the trouble with the partition may be about the whole topic: it was created a moment ago
// and its leaders are being elected, or it was deleted, which the next metadata answer says.
func (part *partition) maySettle(cause wire.Verdict, settling time.Duration) bool {
	if cause.Trouble != sink.NoLeader {
		return false
	}
	t := part.topic
	began := part.trouble.Since
	if part.trouble.Kind != sink.NoLeader {
		began = time.Now()
	}
	return t.absent || time.Since(t.madeAt) < settling ||
		cause.Code == wire.UnknownTopic && time.Since(began) < settling
}

// mayVerify reports whether NOT_ENOUGH_REPLICAS may not be a trouble. With transactions a broker also answers it
// while it waits to hear from the coordinator that the partition is part of the transaction (KIP-890). In a healthy
// cluster that happens several times a minute and is over after one retry, so only what lasts for pace.verifying is
// reported. Missing replicas are still reported within ten seconds.
func (part *partition) mayVerify(cause wire.Verdict, verifying time.Duration) bool {
	if cause.Code != wire.LacksReplicas {
		return false
	}
	if part.lacking.IsZero() {
		part.lacking = time.Now()
	}
	return time.Since(part.lacking) < verifying
}

// timestampRefused words INVALID_TIMESTAMP for the record at the head of the queue.
func (c *Config) timestampRefused(part *partition, cause wire.Verdict) (string, fault.Remedy) {
	topic, at := part.topic.name, time.UnixMilli(part.queued[0].firstTimestamp).UTC().Format(time.RFC3339)
	bounds := wire.TimestampBefore + " and " + wire.TimestampAfter
	if !c.KeepTimestamps {
		return fmt.Sprintf("The topic refuses the present time, %s, as a record's timestamp (%s).", at, cause.Name),
			fault.Do("Compare the clocks of this host and of the brokers. The topic's bounds are "+bounds+".",
				c.Command("kafka-configs", "--describe --all --entity-type topics --entity-name "+topic))
	}
	from := "its commit time"
	if c.TimestampColumn != "" {
		from = fmt.Sprintf("from column %q or its commit time", c.TimestampColumn)
	}
	return fmt.Sprintf("The topic refuses the timestamp of a record, %s, %s (%s).", at, from, cause.Name),
		fault.Do("The topic's bounds are "+bounds+". Widen them, or let the broker set the timestamps.",
			c.Command("kafka-configs", fmt.Sprintf("--alter --entity-type topics --entity-name %s "+
				"--add-config %s=LogAppendTime", topic, wire.TimestampType)))
}

// report records why metadata has no partitions for the topic.
func (t *topic) report(c *Config, l *troubleLog, v wire.Verdict) {
	object := fmt.Sprintf("topic %q", t.name)
	switch {
	case v.Code == wire.UnknownTopic:
		t.trouble.set(l, sink.TopicMissing, object, "The topic does not exist.",
			c.CreateTopicByHand(t.name))
	case v.Trouble == sink.NotAuthorized:
		t.trouble.set(l, sink.NotAuthorized, object,
			fmt.Sprintf("Describing the topic is not allowed (%s).", v.Name),
			c.AllowWrite(t.name))
	case v.Action == wire.Mute:
		t.trouble.set(l, sink.Rejected, object, fmt.Sprintf("The broker answers %s.", v.Name), fault.Remedy{})
	default:
		sentence := fmt.Sprintf("The topic's leaders are not known yet (%s).", v.Name)
		if time.Since(t.madeAt) < c.pace.settling {
			t.trouble.hear(sink.NoLeader, object, sentence, fault.Remedy{})
			return
		}
		t.trouble.speak()
		t.trouble.set(l, sink.NoLeader, object, sentence, fault.Remedy{})
	}
}

// reportGone records that a partition with records waiting has vanished, because the topic was re-created.
func (part *partition) reportGone(l *troubleLog, now int) {
	if part.pending == 0 || part.waiting {
		return
	}
	part.trouble.set(l, sink.TopicMissing, "partition "+part.String(),
		fmt.Sprintf("The topic was re-created with %d partitions; records wait for a partition that no longer exists.",
			now),
		fault.Do("Nothing: in a few seconds, when several answers agree, they are sent to the remaining partitions."))
}

// reportDial records why a connection did not come about, and returns the kind.
func (p *Producer) reportDial(t *trouble, object string, err error) sink.TroubleKind {
	kind, remedy := sink.BrokerUnreachable, fault.Remedy{}
	var (
		de     *wire.DialError
		silent *wire.Silence
	)
	if errors.As(err, &de) {
		kind, remedy = de.Kind, fault.Do(de.Remedy)
	} else if errors.As(err, &silent) {
		remedy = silent.Remedy()
	}
	sentence := wire.Sentences(object, err)
	if t.Kind != kind && p.reported(t, kind) {
		t.hear(kind, object, sentence, remedy)
	} else {
		t.set(&p.troubles, kind, object, sentence, remedy)
	}
	return kind
}
