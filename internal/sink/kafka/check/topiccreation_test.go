package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

func TestCheckCreation(t *testing.T) {
	acl := func(op kmsg.ACLOperation, topic string) kfake.ACL {
		return kfake.ACL{
			Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: op, Allow: true,
		}
	}
	c := fakeCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "connector", "pw",
		acl(kmsg.ACLOperationCreate, "mine"), acl(kmsg.ACLOperationDescribe, "mine"),
		acl(kmsg.ACLOperationWrite, "mine"),
		acl(kmsg.ACLOperationDescribe, "theirs"),
		acl(kmsg.ACLOperationCreate, "orders"), acl(kmsg.ACLOperationDescribe, "orders"), acl(kmsg.ACLOperationDescribe,
			"__x")))
	cfg := Options{Cluster: wire.Cluster{
		Brokers: c.ListenAddrs(),
		SASL: &wire.SASL{
			Mechanism: "PLAIN", Username: "connector",
			Password: func() (string, error) { return "pw", nil },
		},
	}}
	cfg.CreateTopic = func(name string) wire.TopicSettings {
		if name == "orders" {
			return wire.TopicSettings{Partitions: 5, ReplicationFactor: 2}
		}
		return wire.TopicSettings{Partitions: 2, ReplicationFactor: 1}
	}
	findings, err := Cluster(t.Context(), cfg, []string{"mine", "theirs", "orders", "__x"})
	require.NoError(t, err)
	got := levels(findings)
	require.Equal(t, preflight.OK, got["topic mine"])
	require.Equal(t, preflight.Fail, got["topic theirs"])
	require.Equal(t, preflight.Fail, got["topic orders"], "two replicas on one broker")
	require.Equal(t, preflight.Fail, got["topic __x"])
	for _, f := range findings {
		switch f.Subject {
		case "topic theirs":
			require.Contains(t, f.ToDo().String(), "--allow-principal User:connector --operation Create --topic theirs")
		case "topic orders":
			require.Contains(t, f.Remedy, "(now 2)")
		}
	}
	require.Nil(t, c.TopicInfo("mine"), "check creates nothing")
}
