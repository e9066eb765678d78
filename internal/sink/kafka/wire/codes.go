package wire

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Action is the producer's reaction to the error code of one partition in a Produce response.
type Action uint8

const (
	// Done: the batch is in the log.
	Done Action = iota
	// Rewind: it passes; wait a little and send the same bytes again.
	Rewind
	// Refresh: the leader is, or may be, elsewhere; ask for metadata now, then as rewind.
	Refresh
	// Split: the topic does not take all of the batch; send it in halves. A single record is refused.
	Split
	// Bump: the broker's idea of our sequence is lost; the next session begins with a new epoch.
	Bump
	// Renew: our producer id is of no use any more; the next session begins with another.
	Renew
	// Mute: an operator has to change something; try again slowly, and say so.
	Mute
	// Fenced: another instance has taken over our place; send nothing more.
	Fenced
)

func (a Action) String() string {
	return [...]string{"done", "rewind", "refresh", "split", "bump", "renew", "mute", "fenced"}[a]
}

// Verdict is one row of the error table.
type Verdict struct {
	Code    int16
	Name    string // the protocol's name, as in logs and metric labels
	Action  Action
	Trouble sink.TroubleKind // what an operator sees while it lasts
}

// Verdicts is the table of error codes (https://kafka.apache.org/protocol#protocol_error_codes). All recovery goes by
// sending the same bytes with the same sequence again, so whether a failed batch was appended or not matters to no
// row: where it was, the broker recognizes the repeat.
//
// 45 OUT_OF_ORDER_SEQUENCE_NUMBER after an older failed batch of the same partition is only its echo and never
// gets here, see partition.answered.
var Verdicts = map[int16]Verdict{
	0: {0, "NONE", Done, ""},
	// The broker knows the sequence: an earlier copy of the batch is in the log.
	46: {46, "DUPLICATE_SEQUENCE_NUMBER", Done, ""},

	// Certainly not appended: this broker does not lead the partition, or cannot write to it.
	3:   {3, "UNKNOWN_TOPIC_OR_PARTITION", Refresh, sink.NoLeader},
	5:   {5, "LEADER_NOT_AVAILABLE", Refresh, sink.NoLeader},
	6:   {6, "NOT_LEADER_OR_FOLLOWER", Refresh, sink.NoLeader},
	8:   {8, "BROKER_NOT_AVAILABLE", Refresh, sink.NoLeader},
	9:   {9, "REPLICA_NOT_AVAILABLE", Refresh, sink.NoLeader},
	13:  {13, "NETWORK_EXCEPTION", Refresh, sink.NoLeader},
	41:  {41, "NOT_CONTROLLER", Refresh, sink.NoLeader},
	56:  {56, "KAFKA_STORAGE_ERROR", Refresh, sink.NoLeader},
	57:  {57, "LOG_DIR_NOT_FOUND", Refresh, sink.NoLeader},
	72:  {72, "LISTENER_NOT_FOUND", Refresh, sink.NoLeader},
	74:  {74, "FENCED_LEADER_EPOCH", Refresh, sink.NoLeader},
	75:  {75, "UNKNOWN_LEADER_EPOCH", Refresh, sink.NoLeader},
	100: {100, "UNKNOWN_TOPIC_ID", Refresh, sink.NoLeader},
	103: {103, "INCONSISTENT_TOPIC_ID", Refresh, sink.NoLeader},

	// Passes. 7 and 20 may have been appended.
	2:  {2, "CORRUPT_MESSAGE", Rewind, sink.Rejected},
	7:  {7, "REQUEST_TIMED_OUT", Rewind, sink.NotEnoughReplicas},
	14: {14, "COORDINATOR_LOAD_IN_PROGRESS", Rewind, sink.NoLeader},
	15: {15, "COORDINATOR_NOT_AVAILABLE", Rewind, sink.NoLeader},
	16: {16, "NOT_COORDINATOR", Rewind, sink.NoLeader},
	19: {19, "NOT_ENOUGH_REPLICAS", Rewind, sink.NotEnoughReplicas},
	20: {20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Rewind, sink.NotEnoughReplicas},
	51: {51, "CONCURRENT_TRANSACTIONS", Rewind, sink.Rejected},
	89: {89, "THROTTLING_QUOTA_EXCEEDED", Rewind, sink.Rejected},

	10: {10, "MESSAGE_TOO_LARGE", Split, sink.RecordTooLarge},
	18: {18, "RECORD_LIST_TOO_LARGE", Split, sink.RecordTooLarge},
	// One record's fault: no key on a compacted topic, a timestamp out of the topic's bounds.
	32: {32, "INVALID_TIMESTAMP", Split, sink.Rejected},
	87: {87, "INVALID_RECORD", Split, sink.Rejected},

	// At the head of the line, with everything older acknowledged: the broker has lost the partition's producer
	// state (expired, records deleted, topic re-created, unclean leader election).
	45: {45, "OUT_OF_ORDER_SEQUENCE_NUMBER", Bump, sink.Rejected},
	59: {59, "UNKNOWN_PRODUCER_ID", Bump, sink.Rejected},
	// Our Produce requests are too old to get it; should it come all the same, the action is right.
	120: {120, "TRANSACTION_ABORTABLE", Bump, sink.Rejected},
	// No other producer has the id of a producer without a transactional id: the broker saw a higher epoch of ours.
	// With one, it is what a leader answers to a producer that was fenced, see Producer.outranked.
	47: {47, "INVALID_PRODUCER_EPOCH", Renew, sink.Rejected},
	49: {49, "INVALID_PRODUCER_ID_MAPPING", Renew, sink.Rejected},

	// For an operator to fix.
	17: {17, "INVALID_TOPIC_EXCEPTION", Mute, sink.Rejected},
	21: {21, "INVALID_REQUIRED_ACKS", Mute, sink.Rejected},
	29: {29, "TOPIC_AUTHORIZATION_FAILED", Mute, sink.NotAuthorized},
	31: {31, "CLUSTER_AUTHORIZATION_FAILED", Mute, sink.NotAuthorized},
	35: {35, "UNSUPPORTED_VERSION", Mute, sink.Rejected},
	42: {42, "INVALID_REQUEST", Mute, sink.Rejected},
	43: {43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", Mute, sink.Rejected},
	44: {44, "POLICY_VIOLATION", Mute, sink.Rejected},
	50: {50, "INVALID_TRANSACTION_TIMEOUT", Mute, sink.Rejected},
	53: {53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Mute, sink.NotAuthorized},
	58: {58, "SASL_AUTHENTICATION_FAILED", Mute, sink.NotAuthorized},
	76: {76, "UNSUPPORTED_COMPRESSION_TYPE", Mute, sink.Rejected},

	48: {48, "INVALID_TXN_STATE", Fenced, sink.Rejected},
	90: {90, "PRODUCER_FENCED", Fenced, sink.Rejected},
}

// Codes that are examined besides the table, where the answer to one kind of request gives them a meaning of its
// own.
const (
	CorruptMessage                     = 2
	UnknownTopic                       = 3
	LeaderNotAvailable                 = 5
	MessageTooLarge                    = 10
	CoordinatorLoading                 = 14
	LacksReplicas                      = 19
	CoordinatorNotAvailable            = 15
	TopicAuthorizationFailed           = 29
	InvalidTimestamp                   = 32
	GroupAuthorizationFailed           = 30
	ClusterAuthorizationFailed         = 31
	UnsupportedVersion                 = 35
	TopicAlreadyExists                 = 36
	invalidPartitions                  = 37
	invalidReplicationFactor           = 38
	InvalidTopic                       = 17
	invalidConfig                      = 40
	InvalidRequest                     = 42
	policyViolation                    = 44
	InvalidProducerEpoch               = 47
	InvalidTxnState                    = 48
	InvalidProducerIDMapping           = 49
	InvalidTransactionTimeout          = 50
	ConcurrentTransactions             = 51
	TransactionalIDAuthorizationFailed = 53
	OperationNotAttempted              = 55 // what the good partitions of a refused request get
	StorageError                       = 56
	GroupIDNotFound                    = 69
	UnstableOffsetCommit               = 88
	ProducerFenced                     = 90
)

// VerdictOf is the row for the code. An unknown code is for a person to look at; the data stays, and is tried again.
func VerdictOf(code int16) Verdict {
	if v, ok := Verdicts[code]; ok {
		return v
	}
	if code == -1 {
		return Verdict{code, "UNKNOWN_SERVER_ERROR", Mute, sink.Rejected}
	}
	return Verdict{code, fmt.Sprintf("ERROR_%d", code), Mute, sink.Rejected}
}

// CodeError is an error code where no more than trying again is to be done about it.
type CodeError struct {
	API  string
	Code int16
}

func (e *CodeError) Error() string { return e.API + ": " + VerdictOf(e.Code).Name }
