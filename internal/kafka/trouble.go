package kafka

import (
	"time"

	"go.uber.org/zap"
)

// TroubleKind names what the producer waits for.
type TroubleKind string

// The kinds of trouble.
const (
	BrokerUnreachable TroubleKind = "broker_unreachable" // no connection, or no answer
	NotAuthenticated  TroubleKind = "not_authenticated"  // TLS or SASL refused
	NotAuthorized     TroubleKind = "not_authorized"     // an ACL is missing
	TopicMissing      TroubleKind = "topic_missing"      // the topic, or a partition of it, does not exist
	NoLeader          TroubleKind = "no_leader"          // no broker leads the partition
	NotEnoughReplicas TroubleKind = "not_enough_replicas"
	NoProducerID      TroubleKind = "no_producer_id"   // InitProducerID fails
	RecordTooLarge    TroubleKind = "record_too_large" // a single record exceeds the topic's max.message.bytes
	Rejected          TroubleKind = "rejected"         // any other error code
)

// Trouble is one thing the producer waits for. It goes on by itself when the cause is gone.
type Trouble struct {
	Kind     TroubleKind `json:"kind"`
	Object   string      `json:"object"` // e.g. `topic "orders.events"`, `partition orders.events/3`, `broker 127.0.0.1:9092`
	Since    time.Time   `json:"since"`
	Sentence string      `json:"sentence"` // what is wrong
	Remedy   string      `json:"remedy"`   // what to do about it; empty where waiting is all
}

// trouble is the present trouble of one object, nil kind for none. Guarded by the producer's lock.
type trouble struct{ Trouble }

// set records the trouble; it keeps Since while the kind stays the same, and logs only the change.
func (t *trouble) set(log *zap.Logger, kind TroubleKind, object, sentence, remedy string) {
	if t.Kind == kind {
		t.Sentence, t.Remedy = sentence, remedy
		return
	}
	t.Trouble = Trouble{Kind: kind, Object: object, Since: time.Now(), Sentence: sentence, Remedy: remedy}
	log.Warn("waiting for kafka", zap.String("trouble", string(kind)), zap.String("object", object),
		zap.String("reason", sentence), zap.String("remedy", remedy))
}

// resolve forgets the trouble.
func (t *trouble) resolve(log *zap.Logger) {
	if t.Kind == "" {
		return
	}
	log.Info("kafka trouble is over", zap.String("trouble", string(t.Kind)), zap.String("object", t.Object),
		zap.Duration("lasted", time.Since(t.Since)))
	t.Trouble = Trouble{}
}

// Trouble returns what the producer waits for at this moment, empty when nothing is wrong. Short ones, such as a
// leader that moves, show up too: look at Since.
func (p *Producer) Trouble() []Trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Trouble
	add := func(t *trouble) {
		if t.Kind != "" {
			out = append(out, t.Trouble)
		}
	}
	add(&p.control.trouble)
	add(&p.idTrouble)
	if p.tx != nil {
		add(&p.tx.trouble)
	}
	for _, b := range p.brokers {
		if len(b.ready) > 0 || len(b.inflight) > 0 { // else nothing waits for this broker
			add(&b.trouble)
		}
	}
	for _, t := range p.topics {
		add(&t.trouble)
		for _, part := range t.partitions {
			add(&part.trouble)
		}
	}
	return out
}
