package wire

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Commands that create missing objects, as the scripts of Kafka's own distribution, ready to be pasted.

// Command is a tool's call for this cluster. Where the brokers ask for TLS or a login the tools want a file with both.
func (c *Cluster) Command(tool, arguments string) string {
	s := tool + ".sh --bootstrap-server " + c.Brokers[0]
	if c.TLS != nil || c.SASL != nil {
		s += " --command-config client.properties"
	}
	return s + " " + arguments
}

// CreateTopicByHand leaves the replication factor to the brokers' default, which fits the cluster's size where a
// number from here might not.
func (c *Cluster) CreateTopicByHand(topic string) fault.Remedy {
	return fault.Do("Create the topic.", c.Command("kafka-topics", "--create --topic "+topic+" --partitions 12"))
}

// AwaitGroups is the remedy that keeps the order of keys when a topic has got partitions. The commands do not resume:
// an operator does when no group has lag.
func (c *Cluster) AwaitGroups(topic string) fault.Remedy {
	return fault.Do("A group that is behind handles newer events of a key before older ones. Pause until no group "+
		"that reads the topic has lag in its older partitions, then cdc-outbox resume.",
		"cdc-outbox pause --reason 'partitions were added to "+topic+"'",
		c.Command("kafka-consumer-groups", "--describe --all-groups"))
}

// AllowWrite gives the rights to publish to a topic.
func (c *Cluster) AllowWrite(topic string) fault.Remedy {
	return fault.Do("Allow the user to write to the topic.", c.Command("kafka-acls",
		"--add --allow-principal User:"+c.principal()+" --operation Write --operation Describe --topic "+topic))
}

// allowCreate: the right to create one topic by its name is enough, and so is the right to create any (KIP-277).
func (c *Cluster) allowCreate(topic string) fault.Remedy {
	return fault.Do("Allow the user to create the topic.", c.Command("kafka-acls",
		"--add --allow-principal User:"+c.principal()+" --operation Create --topic "+topic))
}

// AllowFencing gives the rights to keep out an instance that has lost its place.
func (c *Cluster) AllowFencing(id string) fault.Remedy {
	return fault.Do("Allow the user to use the transactional id.", c.allowID(id))
}

func (c *Cluster) allowID(id string) string {
	return c.Command("kafka-acls", "--add --allow-principal User:"+c.principal()+
		" --operation Write --operation Describe --transactional-id "+id)
}

// AllowTransactions gives the rights of exactly-once delivery beside the right to write to the topics.
func (c *Cluster) AllowTransactions(id, positions string) fault.Remedy {
	allow := "--add --allow-principal User:" + c.principal() + " "
	return fault.Do("Allow the user to use the transactional id, the group and the topic of positions.",
		c.allowID(id),
		c.Command("kafka-acls", allow+"--operation Read --group "+id),
		c.Command("kafka-acls", allow+"--operation Read --operation Describe --operation Create --topic "+positions))
}

// AllowPositions gives the rights to keep the checkpoint's number outside of Postgres.
func (c *Cluster) AllowPositions(group, positions string) fault.Remedy {
	allow := "--add --allow-principal User:" + c.principal() + " "
	return fault.Do("Allow the user to use the group and the topic of positions.",
		c.Command("kafka-acls", allow+"--operation Read --group "+group),
		c.Command("kafka-acls", allow+"--operation Read --operation Describe --operation Create --topic "+positions))
}

// AllowIdempotence is what a producer id needs: since 2.8 the right to write to any topic is enough for a producer id
// (KIP-679).
func (c *Cluster) AllowIdempotence() fault.Remedy {
	allow := "--add --allow-principal User:" + c.principal()
	return fault.Do("Allow the user to write to the topics. Before Kafka 2.8 the second command is needed as well.",
		c.Command("kafka-acls", allow+" --operation Write --topic TOPIC"),
		c.Command("kafka-acls", allow+" --operation IdempotentWrite --cluster"))
}

func (c *Cluster) principal() string {
	if c.SASL != nil && c.SASL.Username != "" {
		return c.SASL.Username
	}
	return "NAME" // in the certificate or in the token
}

// RaiseLimit is the command that lets the topic take a batch of this size, and a little more.
func (c *Cluster) RaiseLimit(topic string, bytes int) string {
	return c.Command("kafka-configs", fmt.Sprintf("--alter --entity-type topics --entity-name %s --add-config %s=%d",
		topic, MaxMessageBytes, bytes+bytes/8))
}
