package kafka

// Commands that mend what is missing, as the scripts of Kafka's own distribution, ready to be pasted.

// command is a tool's call for this cluster. Where the brokers ask for TLS or a login the tools want a file with both.
func (cfg *Config) command(tool, arguments string) string {
	s := tool + ".sh --bootstrap-server " + cfg.Brokers[0]
	if cfg.TLS != nil || cfg.SASL != nil {
		s += " --command-config client.properties"
	}
	return s + " " + arguments
}

// createTopic leaves the replication factor to the brokers' default, which fits the cluster's size where a number from
// here might not.
func (cfg *Config) createTopic(topic string) string {
	return cfg.command("kafka-topics", "--create --topic "+topic+" --partitions 12")
}

func (cfg *Config) allowWrite(topic string) string {
	return cfg.command("kafka-acls", "--add --allow-principal User:"+cfg.principal()+" --operation Write --operation Describe --topic "+topic)
}

// allowCreate: the right to create one topic by its name is enough, and so is the one to create any (KIP-277).
func (cfg *Config) allowCreate(topic string) string {
	return cfg.command("kafka-acls", "--add --allow-principal User:"+cfg.principal()+" --operation Create --topic "+topic)
}

// allowTransactions is what exactly-once delivery needs beside the right to write to the topics.
func (cfg *Config) allowTransactions(claim, positions string) string {
	allow := "--add --allow-principal User:" + cfg.principal() + " "
	return cfg.command("kafka-acls", allow+"--operation Write --operation Describe --transactional-id "+claim) + "\n" +
		cfg.command("kafka-acls", allow+"--operation Read --group "+claim) + "\n" +
		cfg.command("kafka-acls", allow+"--operation Read --operation Describe --operation Create --topic "+positions)
}

// allowIdempotence: since 2.8 the right to write to any topic is enough for a producer id (KIP-679).
func (cfg *Config) allowIdempotence() string {
	allow := "--add --allow-principal User:" + cfg.principal()
	return cfg.command("kafka-acls", allow+" --operation Write --topic TOPIC") +
		"\n# before Kafka 2.8 also:\n" + cfg.command("kafka-acls", allow+" --operation IdempotentWrite --cluster")
}

func (cfg *Config) principal() string {
	if cfg.SASL != nil {
		return cfg.SASL.Username
	}
	return "NAME"
}
