package kafka

import (
	"errors"
	"fmt"
)

// This file turns causes into the sentences that operators read. Nothing here quotes a record or what a broker says
// about one.

// report tells why the partition waits.
func (p *Producer) report(part *partition, cause verdict) {
	if cause.trouble == "" {
		return
	}
	topic := part.topic.name
	sentence := fmt.Sprintf("The broker answers %s.", cause.name)
	remedy := ""
	switch cause.trouble {
	case NoLeader:
		sentence = fmt.Sprintf("No broker takes records as the partition's leader (%s).", cause.name)
		remedy = "# look at the partition's leader and replicas:\n" + p.cfg.command("kafka-topics", "--describe --topic "+topic)
	case NotEnoughReplicas:
		sentence = fmt.Sprintf("Too few replicas are in sync to acknowledge (%s).", cause.name)
		remedy = "# bring the missing brokers back; min.insync.replicas against replicas:\n" + p.cfg.command("kafka-topics", "--describe --topic "+topic)
	case NotAuthorized:
		sentence = fmt.Sprintf("Writing is not allowed (%s).", cause.name)
		remedy = p.cfg.allowWrite(topic)
	case RecordTooLarge:
		size := part.queued[0].size()
		sentence = fmt.Sprintf("A record of %d bytes is larger than the topic allows (%s); nothing overtakes it.", size, cause.name)
		remedy = p.cfg.command("kafka-configs", fmt.Sprintf("--alter --entity-type topics --entity-name %s --add-config max.message.bytes=%d", topic, size+size/8))
	case Rejected:
		if cause.action == mute || cause.action == split {
			remedy = "Look for the partition in the broker's log. A compacted topic takes no record without a key; a message format, timestamp or policy setting of the topic may refuse the record."
		}
	}
	part.trouble.set(p.log, cause.trouble, "partition "+part.String(), sentence, remedy)
}

// reportTopic tells why metadata has no partitions for the topic.
func (p *Producer) reportTopic(t *topic, v verdict) {
	object := fmt.Sprintf("topic %q", t.name)
	switch {
	case v.code == unknownTopic:
		t.trouble.set(p.log, TopicMissing, object, "The topic does not exist.", p.cfg.createTopic(t.name))
	case v.trouble == NotAuthorized:
		t.trouble.set(p.log, NotAuthorized, object, fmt.Sprintf("Describing the topic is not allowed (%s).", v.name), p.cfg.allowWrite(t.name))
	case v.action == mute:
		t.trouble.set(p.log, Rejected, object, fmt.Sprintf("The broker answers %s.", v.name), "")
	default:
		t.trouble.set(p.log, NoLeader, object, fmt.Sprintf("The topic's leaders are not known yet (%s).", v.name), "")
	}
}

// reportNoPartition tells that a record names a partition that does not exist.
func (p *Producer) reportNoPartition(t *topic, index int32) {
	t.wanted = int(index)
	p.lookAgain()
	t.trouble.set(p.log, TopicMissing, fmt.Sprintf("topic %q", t.name),
		fmt.Sprintf("A record is for partition %d, the topic has %d.", index, len(t.partitions)),
		p.cfg.command("kafka-topics", fmt.Sprintf("--alter --topic %s --partitions %d", t.name, index+1)))
}

// reportGone tells that a partition with records waiting has vanished, because the topic was created anew.
func (p *Producer) reportGone(part *partition, now int) {
	if part.pending == 0 {
		return
	}
	part.trouble.set(p.log, TopicMissing, "partition "+part.String(),
		fmt.Sprintf("The topic was created anew with %d partitions; records wait for one that is gone.", now),
		p.cfg.command("kafka-topics", fmt.Sprintf("--alter --topic %s --partitions %d", part.topic.name, len(part.topic.partitions)))+
			"\n# or restart: what is unacknowledged comes again and is spread anew")
}

// reportDial tells why a connection did not come about, and returns the kind.
func (p *Producer) reportDial(t *trouble, object string, err error) TroubleKind {
	kind, remedy := BrokerUnreachable, ""
	var de *dialError
	if errors.As(err, &de) {
		kind, remedy = de.kind, de.remedy
	}
	sentence := connectionSentences(object, err)
	if t.Kind != kind && p.told(t, kind) {
		t.hear(kind, object, sentence, remedy)
	} else {
		t.set(p.log, kind, object, sentence, remedy)
	}
	return kind
}
