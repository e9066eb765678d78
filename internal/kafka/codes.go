package kafka

import "fmt"

// action is what the producer does about the error code of one partition in a Produce response.
type action uint8

const (
	// done: the batch is in the log.
	done action = iota
	// rewind: it passes by itself; wait a little and send the same bytes again.
	rewind
	// refresh: the leader is, or may be, elsewhere; ask for metadata now, then as rewind.
	refresh
	// split: the topic does not take all of the batch; send it in halves. A single record is for Config.Refused.
	split
	// bump: the broker's idea of our sequence is lost; take a new epoch and start the sequences over.
	bump
	// renew: our producer id is of no use any more; ask for a new one and start the sequences over.
	renew
	// mute: somebody has to change something; try again slowly, and say so.
	mute
	// fenced: another instance has taken over our place; stop.
	fenced
)

func (a action) String() string {
	return [...]string{"done", "rewind", "refresh", "split", "bump", "renew", "mute", "fenced"}[a]
}

// verdict is one row of the error table.
type verdict struct {
	code    int16
	name    string // the protocol's name, as in logs and metric labels
	action  action
	trouble TroubleKind // what an operator sees while it lasts
}

// verdicts is the table of error codes (https://kafka.apache.org/protocol#protocol_error_codes). All recovery goes by
// sending the same bytes with the same sequence again, so whether a failed batch was appended or not matters to no
// row: where it was, the broker recognizes the repeat.
//
// 45 OUT_OF_ORDER_SEQUENCE_NUMBER behind an older failed batch of the same partition is only its echo and never
// gets here, see partition.answered.
var verdicts = map[int16]verdict{
	0: {0, "NONE", done, ""},
	// The broker knows the sequence: an earlier copy of the batch is in the log.
	46: {46, "DUPLICATE_SEQUENCE_NUMBER", done, ""},

	// Certainly not appended: this broker does not lead the partition, or cannot write to it.
	3:   {3, "UNKNOWN_TOPIC_OR_PARTITION", refresh, NoLeader},
	5:   {5, "LEADER_NOT_AVAILABLE", refresh, NoLeader},
	6:   {6, "NOT_LEADER_OR_FOLLOWER", refresh, NoLeader},
	8:   {8, "BROKER_NOT_AVAILABLE", refresh, NoLeader},
	9:   {9, "REPLICA_NOT_AVAILABLE", refresh, NoLeader},
	13:  {13, "NETWORK_EXCEPTION", refresh, NoLeader},
	41:  {41, "NOT_CONTROLLER", refresh, NoLeader},
	56:  {56, "KAFKA_STORAGE_ERROR", refresh, NoLeader},
	57:  {57, "LOG_DIR_NOT_FOUND", refresh, NoLeader},
	72:  {72, "LISTENER_NOT_FOUND", refresh, NoLeader},
	74:  {74, "FENCED_LEADER_EPOCH", refresh, NoLeader},
	75:  {75, "UNKNOWN_LEADER_EPOCH", refresh, NoLeader},
	100: {100, "UNKNOWN_TOPIC_ID", refresh, NoLeader},
	103: {103, "INCONSISTENT_TOPIC_ID", refresh, NoLeader},

	// Passes by itself. 7 and 20 may have been appended.
	2:  {2, "CORRUPT_MESSAGE", rewind, Rejected},
	7:  {7, "REQUEST_TIMED_OUT", rewind, NotEnoughReplicas},
	14: {14, "COORDINATOR_LOAD_IN_PROGRESS", rewind, NoLeader},
	15: {15, "COORDINATOR_NOT_AVAILABLE", rewind, NoLeader},
	16: {16, "NOT_COORDINATOR", rewind, NoLeader},
	19: {19, "NOT_ENOUGH_REPLICAS", rewind, NotEnoughReplicas},
	20: {20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", rewind, NotEnoughReplicas},
	51: {51, "CONCURRENT_TRANSACTIONS", rewind, Rejected},
	89: {89, "THROTTLING_QUOTA_EXCEEDED", rewind, Rejected},

	10: {10, "MESSAGE_TOO_LARGE", split, RecordTooLarge},
	18: {18, "RECORD_LIST_TOO_LARGE", split, RecordTooLarge},
	// One record's fault: no key on a compacted topic, a timestamp out of the topic's bounds.
	32: {32, "INVALID_TIMESTAMP", split, Rejected},
	87: {87, "INVALID_RECORD", split, Rejected},

	// At the head of the line, with everything older acknowledged: the broker has lost the partition's producer
	// state (expired, records deleted, topic re-created, unclean leader election).
	45: {45, "OUT_OF_ORDER_SEQUENCE_NUMBER", bump, Rejected},
	59: {59, "UNKNOWN_PRODUCER_ID", bump, Rejected},
	// Our Produce requests are too old to get it; should it come all the same, it says what to do.
	120: {120, "TRANSACTION_ABORTABLE", bump, Rejected},
	// Nobody else has the id of a producer without a transactional id: the broker saw a higher epoch of ours.
	47: {47, "INVALID_PRODUCER_EPOCH", renew, Rejected},
	49: {49, "INVALID_PRODUCER_ID_MAPPING", renew, Rejected},

	// For a person to mend.
	17: {17, "INVALID_TOPIC_EXCEPTION", mute, Rejected},
	21: {21, "INVALID_REQUIRED_ACKS", mute, Rejected},
	29: {29, "TOPIC_AUTHORIZATION_FAILED", mute, NotAuthorized},
	31: {31, "CLUSTER_AUTHORIZATION_FAILED", mute, NotAuthorized},
	35: {35, "UNSUPPORTED_VERSION", mute, Rejected},
	42: {42, "INVALID_REQUEST", mute, Rejected},
	43: {43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", mute, Rejected},
	44: {44, "POLICY_VIOLATION", mute, Rejected},
	53: {53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", mute, NotAuthorized},
	58: {58, "SASL_AUTHENTICATION_FAILED", mute, NotAuthorized},
	76: {76, "UNSUPPORTED_COMPRESSION_TYPE", mute, Rejected},

	48: {48, "INVALID_TXN_STATE", fenced, Rejected},
	90: {90, "PRODUCER_FENCED", fenced, Rejected},
}

// Codes that somebody looks at besides the table, where the answer to one kind of request gives them a meaning of its own.
const (
	corruptMessage                     = 2
	unknownTopic                       = 3
	leaderNotAvailable                 = 5
	messageTooLarge                    = 10
	coordinatorLoading                 = 14
	topicAuthorizationFailed           = 29
	groupAuthorizationFailed           = 30
	clusterAuthorizationFailed         = 31
	topicAlreadyExists                 = 36
	invalidPartitions                  = 37
	invalidReplicationFactor           = 38
	invalidConfig                      = 40
	policyViolation                    = 44
	invalidProducerEpoch               = 47
	invalidTxnState                    = 48
	invalidProducerIDMapping           = 49
	invalidTransactionTimeout          = 50
	concurrentTransactions             = 51
	transactionalIDAuthorizationFailed = 53
	operationNotAttempted              = 55 // what the good partitions of a refused request get
	groupIDNotFound                    = 69
	unstableOffsetCommit               = 88
	producerFenced                     = 90
)

// verdictOf is the row for the code. An unknown code is for a person to look at; the data stays, and is tried again.
func verdictOf(code int16) verdict {
	if v, ok := verdicts[code]; ok {
		return v
	}
	if code == -1 {
		return verdict{code, "UNKNOWN_SERVER_ERROR", mute, Rejected}
	}
	return verdict{code, fmt.Sprintf("ERROR_%d", code), mute, Rejected}
}

// connectionLost is the verdict over every batch whose answer a broken connection took along: it may or may not have
// been appended, and maybe its broker is no longer the leader.
var connectionLost = verdict{code: -2, name: "CONNECTION_LOST", action: refresh, trouble: ""}

// leaderMoved drains a partition whose leader is another broker according to fresh metadata. Nothing has failed.
var leaderMoved = verdict{code: -3, name: "LEADER_MOVED", action: done, trouble: ""}
