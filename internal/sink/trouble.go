package sink

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Trouble is one thing the producer waits for. The producer continues when the cause is fixed.
type Trouble struct {
	Kind TroubleKind `json:"kind"`
	// e.g. `topic "orders.events"`, `partition orders.events/3`, `broker 127.0.0.1:9092`
	Object   string    `json:"object"`
	Since    time.Time `json:"since"`
	Sentence string    `json:"sentence"`           // the problem
	Remedy   string    `json:"remedy"`             // the next step; empty if there is nothing to do but wait
	Commands []string  `json:"commands,omitempty"` // to be pasted
}

// Wait is the trouble as /status lists it.
func (t *Trouble) Wait() fault.Wait {
	return fault.Wait{
		Kind: string(t.Kind), Object: t.Object, Reason: t.Sentence, Next: t.Remedy, Commands: t.Commands,
		Since: t.Since,
	}
}

// TroubleKind names the cause of a wait of the producer.
type TroubleKind string

// The kinds of trouble.
const (
	BrokerUnreachable TroubleKind = "broker_unreachable" // no connection, or no answer
	NotAuthenticated  TroubleKind = "not_authenticated"  // TLS or SASL refused
	NoToken           TroubleKind = "no_token"           // no token for SASL is to be had at the moment
	NotAuthorized     TroubleKind = "not_authorized"     // a right is missing
	TopicMissing      TroubleKind = "topic_missing"      // the topic, or a partition of it, does not exist
	NoLeader          TroubleKind = "no_leader"          // no broker leads the partition
	NotEnoughReplicas TroubleKind = "not_enough_replicas"
	NoProducerID      TroubleKind = "no_producer_id"   // InitProducerID fails
	RecordTooLarge    TroubleKind = "record_too_large" // a single record exceeds the topic's max.message.bytes
	Rejected          TroubleKind = "rejected"         // any other error code

	RegistryUnreachable TroubleKind = "registry_unreachable" // the schema registry gives no answer
	RegistryRefuses     TroubleKind = "registry_refuses"     // it gives no answer that says what was asked
)

// Passes reports whether trouble with a connection often ends without an operator, so that trying again soon is right.
func (k TroubleKind) Passes() bool { return k == BrokerUnreachable || k == NoToken }
