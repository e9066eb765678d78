//go:build e2e

package kafka

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// saslKafka starts a broker whose clients log in as "user" with "right" or "righ²", and may do what ACLs allow. Its own
// connections, and the connections of the cluster's admin client, may do everything. Sessions last three seconds.
func saslKafka(t *testing.T, topics ...string) *kafka.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := kafka.Start(ctx, kafka.Options{Settings: map[string]string{
		"listener.security.protocol.map":               "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
		"listener.name.client.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule " +
			`required user_user="right";`,
		"listener.name.client.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram." +
			"ScramLoginModule required;",
		"connections.max.reauth.ms": "6000",
		"authorizer.class.name":     "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":               "User:ANONYMOUS",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	for _, topic := range topics {
		require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: topic, Partitions: 3}))
	}
	res, err := c.Admin().AlterUserSCRAMs(ctx, nil,
		[]kadm.UpsertSCRAM{{User: "user", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "righ²"}})
	require.NoError(t, err)
	require.NoError(t, res.Error())
	return c
}

// allow grants the user operations on topics, a group or a transactional id of that name.
func allow(t *testing.T, c *kafka.Cluster, resource func(*kadm.ACLBuilder) *kadm.ACLBuilder, ops ...kadm.ACLOperation) {
	t.Helper()
	b := resource(kadm.NewACLs()).Allow("User:user").AllowHosts("*").Operations(ops...).
		ResourcePatternType(kadm.ACLPatternLiteral)
	res, err := c.Admin().CreateACLs(t.Context(), b)
	require.NoError(t, err)
	for _, r := range res {
		require.NoError(t, r.Err)
	}
}

func onTopics(names ...string) func(*kadm.ACLBuilder) *kadm.ACLBuilder {
	return func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Topics(names...) }
}

func onGroup(name string) func(*kadm.ACLBuilder) *kadm.ACLBuilder {
	return func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Groups(name) }
}

func onTransactionalID(name string) func(*kadm.ACLBuilder) *kadm.ACLBuilder {
	return func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.TransactionalIDs(name) }
}

// TestRealAuthenticatesAgain: through several sessions' ends under steady load, no connection is lost and nothing is
// sent twice; in transactions neither. A broker that saw an expired session used for anything else would close it.
func TestRealAuthenticatesAgain(t *testing.T) {
	c := saslKafka(t, "t", "cdc-outbox.positions")
	allow(t, c, onTopics("t"), kadm.OpWrite, kadm.OpDescribe)
	allow(t, c, onTopics("cdc-outbox.positions"), kadm.OpRead, kadm.OpDescribe)
	allow(t, c, onTransactionalID("slot"), kadm.OpWrite, kadm.OpDescribe)
	allow(t, c, onGroup("slot"), kadm.OpRead)
	const sessions = 3
	for name, test := range map[string]struct {
		mechanism    string
		transactions *Transactions
	}{
		"PLAIN":                  {"PLAIN", nil},
		"SCRAM":                  {"SCRAM-SHA-512", nil},
		"SCRAM and transactions": {"SCRAM-SHA-512", &Transactions{Instance: "test"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lost, passwords atomic.Int32
			cfg := Config{
				Cluster: wire.Cluster{Brokers: c.Addrs()}, MetadataInterval: 500 * time.Millisecond,
				Reconnected: func() { lost.Add(1) }, Transactions: test.transactions,
			}
			right := map[string]string{"PLAIN": "right", "SCRAM-SHA-512": "righ²"}[test.mechanism]
			cfg.SASL = &wire.SASL{
				Mechanism: test.mechanism, Username: "user",
				Password: func() (string, error) { passwords.Add(1); return right, nil },
			}
			opened := dials(&cfg)
			p, acked := bare(t, cfg)
			_, _, err := p.Begin(t.Context(), sink.Owner{ID: "slot", SystemID: "1"})
			require.NoError(t, err)
			sent, settled, renewals := uint32(0), int32(0), int32(0)
			for began := time.Now(); time.Since(began) < sessions*6*time.Second; sent++ {
				pos := at(uint64(sent + 1))
				require.NoError(t, p.ProduceAt(t.Context(),
					&router.Record{
						Topic: "t", Partition: -1, Key: []byte{byte(sent)},
						Value: make([]byte, 200),
					}, 1, pos))
				p.Mark()
				p.Flush()
				time.Sleep(time.Millisecond) //waits:ok the pace of a writer
				if settled == 0 && time.Since(began) > time.Second {
					settled, renewals = opened.Load(), passwords.Load()
				}
			}
			require.NoError(t, p.Drain(t.Context()))
			require.Equal(t, sent, uint32(acked.Load()))
			renewals = passwords.Load() - renewals
			t.Logf("%d records, %d connections, %d renewals", sent, settled, renewals)
			require.GreaterOrEqual(t, renewals, int32(2*(sessions-1)), "data and control")
			require.Equal(t, settled, opened.Load(), "no connection was re-created")
			require.Zero(t, lost.Load())
			require.Zero(t, testutil.ToFloat64(p.metrics.retries.WithLabelValues(connectionLost.Name)))
			if test.transactions == nil { // leaders refuse a batch while they verify its transaction (KIP-890)
				require.Zero(t, testutil.ToFloat64(p.metrics.rewinds))
			}
			require.Zero(t, testutil.ToFloat64(p.metrics.epochBumps))
			require.Empty(t, p.Trouble())
		})
	}
}
