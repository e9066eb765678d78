package wire

const (
	ResourceTopic   = 2 // in DescribeConfigs
	ResourceBroker  = 4
	MaxMessageBytes = "max.message.bytes"
)

// Settings of a topic that say which timestamps it takes, and the deletion by them.
const (
	CleanupPolicy       = "cleanup.policy"
	RetentionMs         = "retention.ms"
	RetentionBytes      = "retention.bytes"
	TimestampType       = "message.timestamp.type"
	TimestampBefore     = "message.timestamp.before.max.ms"
	TimestampAfter      = "message.timestamp.after.max.ms"
	TimestampDifference = "message.timestamp.difference.max.ms" // of both, before Kafka 4
)

// TimestampSettings lists them.
var TimestampSettings = []string{
	CleanupPolicy, RetentionMs, TimestampType, TimestampBefore, TimestampAfter, TimestampDifference,
}
