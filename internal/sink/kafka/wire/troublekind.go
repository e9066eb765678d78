package wire

// TroubleKind names the cause of a wait of the producer.
type TroubleKind string

// The kinds of trouble.
const (
	BrokerUnreachable TroubleKind = "broker_unreachable" // no connection, or no answer
	NotAuthenticated  TroubleKind = "not_authenticated"  // TLS or SASL refused
	NoToken           TroubleKind = "no_token"           // no token for SASL is to be had at the moment
	NotAuthorized     TroubleKind = "not_authorized"     // an ACL is missing
	TopicMissing      TroubleKind = "topic_missing"      // the topic, or a partition of it, does not exist
	NoLeader          TroubleKind = "no_leader"          // no broker leads the partition
	NotEnoughReplicas TroubleKind = "not_enough_replicas"
	NoProducerID      TroubleKind = "no_producer_id"   // InitProducerID fails
	RecordTooLarge    TroubleKind = "record_too_large" // a single record exceeds the topic's max.message.bytes
	Rejected          TroubleKind = "rejected"         // any other error code
)

// Passes reports whether trouble with a connection often ends without an operator, so that trying again soon is right.
func (k TroubleKind) Passes() bool { return k == BrokerUnreachable || k == NoToken }
