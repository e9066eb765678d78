package wire

const (
	ResourceTopic   = 2 // in DescribeConfigs
	MaxMessageBytes = "max.message.bytes"
)
