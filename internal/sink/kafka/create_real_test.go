//go:build e2e

package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/check"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// TestRealCreateTopics: partitions and configuration arrive as asked for, and a real controller's refusals are
// reported.
func TestRealCreateTopics(t *testing.T) {
	c := realKafka(t, "other", 1)
	settings := map[string]wire.TopicSettings{
		"good": {
			Partitions: 7, ReplicationFactor: 1,
			Config: map[string]string{"retention.ms": "86400000", "max.message.bytes": "2000000"},
		},
		"replicas":   {Partitions: 1, ReplicationFactor: 3},
		"badsetting": {Partitions: 1, ReplicationFactor: 1, Config: map[string]string{"retention.mss": "1"}},
		"badvalue":   {Partitions: 1, ReplicationFactor: 1, Config: map[string]string{"cleanup.policy": "never"}},
	}
	create := func(cfg *Config) { cfg.CreateTopic = func(name string) wire.TopicSettings { return settings[name] } }

	cfg := check.Options{
		Cluster:     wire.Cluster{Brokers: c.Addrs()},
		CreateTopic: func(name string) wire.TopicSettings { return settings[name] },
	}
	findings, err := check.Cluster(t.Context(), cfg, []string{"good", "replicas", "badsetting", "badvalue"})
	require.NoError(t, err)
	got := worst(findings)
	require.Equal(t, preflight.OK, got["topic good"], "%+v", findings)
	for _, name := range []string{"replicas", "badsetting", "badvalue"} {
		require.Equal(t, preflight.Fail, got["topic "+name])
	}
	for _, f := range findings {
		t.Log(f.Subject, f.Found, f.Remedy)
	}

	r := newRigAt(t, c.Addrs(), create)
	r.produce("good", "k")
	r.drain()
	configs, err := c.Admin().DescribeTopicConfigs(t.Context(), "good")
	require.NoError(t, err)
	have := map[string]string{}
	for _, one := range configs[0].Configs {
		have[one.Key] = one.MaybeValue()
	}
	require.Equal(t, "86400000", have["retention.ms"])
	require.Equal(t, "2000000", have["max.message.bytes"])
	details, err := c.Admin().ListTopics(t.Context(), "good")
	require.NoError(t, err)
	require.Len(t, details["good"].Partitions, 7)

	done := make(chan struct{})
	go func() {
		defer close(done)
		r.produce("replicas", "k")
		r.Flush()
	}()
	require.Eventually(t, func() bool { return len(r.Trouble()) == 1 }, testPatience, time.Millisecond)
	require.Contains(t, r.Trouble()[0].Sentence, "INVALID_REPLICATION_FACTOR: ")
	_, err = c.Admin().CreateTopic(t.Context(), 1, 1, nil, "replicas")
	require.NoError(t, err)
	<-done
	r.drain()
	require.Empty(t, r.Trouble())
}

// TestRealCollidingName: a real controller refuses a name that differs from another topic's in "." and "_" only.
func TestRealCollidingName(t *testing.T) {
	c := realKafka(t, "x.y", 1)
	r := newRigAt(t, c.Addrs(), creating)
	var asked []sink.RefusedError
	r.policy = func(_ *router.Record, err *sink.RefusedError) *router.Record {
		asked = append(asked, *err)
		return drop
	}
	r.produce("x_y", "k")
	r.drain()
	require.Len(t, asked, 1)
	require.Equal(t, sink.IllegalTopic, asked[0].Reason)
	require.Eventually(t, func() bool { return len(r.Trouble()) == 0 }, testPatience, time.Millisecond)
}
