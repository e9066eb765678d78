package check

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

func fakeCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// levels maps subjects to the worst level found.
func levels(findings []preflight.Finding) map[string]preflight.Level {
	rank := map[preflight.Level]int{preflight.OK: 1, preflight.Warn: 2, preflight.Fail: 3}
	out := map[string]preflight.Level{}
	for _, f := range findings {
		if rank[f.Level] > rank[out[f.Subject]] {
			out[f.Subject] = f.Level
		}
	}
	return out
}

func TestCheck(t *testing.T) {
	c := fakeCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(3, "orders"))
	require.NoError(t, c.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"}))
	brokers := append(c.ListenAddrs()[:2:2], "127.0.0.1:1")
	findings, err := Cluster(context.Background(), Options{Cluster: wire.Cluster{Brokers: brokers}},
		[]string{"orders", "compacted", "missing"})
	require.NoError(t, err)
	got := levels(findings)
	require.Equal(t, preflight.OK, got["broker "+brokers[0]])
	require.Equal(t, preflight.OK, got["broker "+c.ListenAddrs()[2]], "found through metadata")
	require.Equal(t, preflight.Warn, got["broker 127.0.0.1:1"])
	require.Equal(t, preflight.OK, got["idempotence"])
	require.Equal(t, preflight.Warn, got["topic orders"], "min.insync.replicas is 1")
	require.Equal(t, preflight.Warn, got["topic compacted"])
	require.Equal(t, preflight.Fail, got["topic missing"])
	for _, f := range findings {
		require.NotEmpty(t, f.Found)
		require.Equal(t, f.Level == preflight.OK, f.Why == "", f.Subject)
	}
}

// TestCheckOfABrokerThatHasJustStarted: one broker cannot hold two replicas, and its coordinator loads for moments.
func TestCheckOfABrokerThatHasJustStarted(t *testing.T) {
	c := fakeCluster(t, kfake.NumBrokers(1))
	require.NoError(t, c.CreateTopic("orders", 1, nil))
	asked := 0
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked++; asked > 2 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.ErrorCode = 14 // COORDINATOR_LOAD_IN_PROGRESS
		return res, nil, true
	})
	findings, err := Cluster(context.Background(), Options{Cluster: wire.Cluster{Brokers: c.ListenAddrs()}},
		[]string{"orders", "missing"})
	require.NoError(t, err)
	require.Equal(t, preflight.OK, levels(findings)["idempotence"])
	require.Equal(t, 3, asked)
	for _, f := range findings {
		switch f.Subject {
		case "topic orders":
			require.Contains(t, f.Found, "the cluster has one broker")
			require.NotContains(t, f.Remedy, "kafka-reassign-partitions")
		case "topic missing":
			want := "kafka-topics.sh --bootstrap-server " + c.ListenAddrs()[0] +
				" --create --topic missing --partitions 12"
			require.Equal(t, []string{want}, f.Commands)
		}
	}
}

func TestCheckUnreachable(t *testing.T) {
	findings, err := Cluster(context.Background(), Options{Cluster: wire.Cluster{Brokers: []string{"127.0.0.1:1"}}},
		nil)
	require.ErrorIs(t, err, ErrNoBroker)
	require.Len(t, findings, 1)
	require.Equal(t, preflight.Fail, findings[0].Level)
	require.NotEmpty(t, findings[0].Remedy)

	_, err = Cluster(context.Background(), Options{Cluster: wire.Cluster{Brokers: []string{"nonsense"}}}, nil)
	require.Equal(t, fault.Config, fault.KindOf(err))
}

// A broker that hangs takes the time limit of a connection, and three take no longer. That no broker answers is said,
// so that the caller asks them nothing more.
//
// Bug (monitor): While a broker hung, `check` waited half a minute: it asked Kafka three more questions, and one broker
// after the other. Cost: an answer later than all others.
func TestBrokersThatHangAreAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		findings, err := Cluster(t.Context(), Options{Cluster: wire.Cluster{
			Brokers: []string{"a:9092", "b:9092", "c:9092"}, DialTimeout: 3 * time.Second,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				return ours, nil
			},
		}}, nil)
		require.ErrorIs(t, err, ErrNoBroker)
		require.Equal(t, 3*time.Second, time.Since(began), "one after the other they take nine")
		require.Len(t, findings, 3)
		for _, f := range findings {
			require.Contains(t, f.Found, "It accepts connections and does not answer within 3 s.")
		}
	})
}

func TestCheckNotAuthorized(t *testing.T) {
	acl := func(op kmsg.ACLOperation, topic string) kfake.ACL {
		return kfake.ACL{
			Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: op, Allow: true,
		}
	}
	c := fakeCluster(t, kfake.SeedTopics(1, "orders", "secret", "readable"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("PLAIN", "connector", "pw", acl(kmsg.ACLOperationWrite, "orders"),
			acl(kmsg.ACLOperationDescribe, "orders"), acl(kmsg.ACLOperationDescribe, "readable")))
	cfg := Options{Cluster: wire.Cluster{
		Brokers: c.ListenAddrs(),
		SASL: &wire.SASL{
			Mechanism: "PLAIN", Username: "connector",
			Password: func() (string, error) { return "pw", nil },
		},
	}}
	findings, err := Cluster(context.Background(), cfg, []string{"orders", "secret", "readable"})
	require.NoError(t, err)
	got := levels(findings)
	require.NotEqual(t, preflight.Fail, got["topic orders"])
	require.Equal(t, preflight.Fail, got["topic secret"])
	require.Equal(t, preflight.Fail, got["topic readable"])
}

func TestJudgeDurability(t *testing.T) {
	for name, c := range map[string]struct {
		brokers, replicas, minISR int
		found                     []string
		wanted                    int // min.insync.replicas that the first remedy sets
	}{
		"as it should be":                   {3, 3, 2, nil, 0},
		"as it should be, of five":          {5, 5, 3, nil, 0},
		"not known":                         {3, 3, 0, nil, 0},
		"one broker":                        {1, 1, 1, []string{"the cluster has one broker"}, 0},
		"one replica of three brokers":      {3, 1, 1, []string{"one replica, in a cluster of 3 brokers"}, 0},
		"one replica, and nothing is known": {3, 1, 0, []string{"one replica, in a cluster of 3 brokers"}, 0},
		"one replica, and two of it are asked for": {
			3, 1, 2,
			[]string{"min.insync.replicas is 2, of 1 replicas", "one replica, in a cluster"},
			1,
		},
		"more than there are":    {3, 2, 3, []string{"min.insync.replicas is 3, of 2 replicas"}, 1},
		"all of them":            {3, 3, 3, []string{"min.insync.replicas is 3 of 3"}, 2},
		"a single one is enough": {3, 3, 1, []string{"min.insync.replicas is 1 of 3"}, 2},
	} {
		got := judgeDurability(c.brokers, c.replicas, c.minISR)
		require.Len(t, got, len(c.found), name)
		for i, want := range c.found {
			require.Contains(t, got[i].found, want, name)
			require.NotEmpty(t, got[i].why, name)
			require.True(t, got[i].remedy.Next != "" || got[i].minISR > 0, name)
		}
		if len(got) > 0 {
			require.Equal(t, c.wanted, got[0].minISR, name)
		}
	}
}

func TestCheckOfReplicas(t *testing.T) {
	c := fakeCluster(t, kfake.NumBrokers(3))
	require.NoError(t, c.CreateTopic("orders", 1, map[string]string{"min.insync.replicas": "5"}))
	findings, err := Cluster(context.Background(), Options{Cluster: wire.Cluster{Brokers: c.ListenAddrs()}},
		[]string{"orders"})
	require.NoError(t, err)
	var texts []string
	for _, f := range findings {
		if f.Subject == "topic orders" {
			require.Equal(t, preflight.Warn, f.Level)
			texts = append(texts, f.Found+" "+f.ToDo().String())
		}
	}
	require.NotEmpty(t, texts)
	require.Contains(t, texts[0], "min.insync.replicas is 5, of 3 replicas.")
	require.Contains(t, texts[0], "--add-config min.insync.replicas=2")
}
