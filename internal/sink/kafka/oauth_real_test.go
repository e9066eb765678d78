//go:build e2e

package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/check"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/token"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// provider is a token endpoint. Its tokens last a few seconds, and are signed where it has a signer.
type provider struct {
	*httptest.Server
	life   time.Duration
	signer *signer
	down   atomic.Bool
	issued atomic.Int32
}

func newProvider(t *testing.T, life time.Duration) *provider {
	i := &provider{life: life}
	i.Server = httptest.NewServer(http.HandlerFunc(i.answer))
	t.Cleanup(i.Close)
	return i
}

func (i *provider) answer(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	id, secret, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case id != "relay" || secret != "right":
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
	default:
		i.issued.Add(1)
		now := time.Now()
		claims, _ := json.Marshal(map[string]any{
			"sub": "relay", "scope": r.Form.Get("scope"), "iss": "idp.example", "aud": "kafka.example",
			"iat": now.Unix() - 1, "exp": float64(now.Add(i.life).UnixMilli()) / 1000,
		})
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, i.signer.token(claims),
			int(i.life.Seconds()))
	}
}

func (i *provider) endpoint(secret string, scopes ...string) *token.Cache {
	return token.Endpoint{
		URL: i.URL + "/token", ClientID: "relay", Secret: func() (string, error) { return secret, nil }, Scopes: scopes,
	}.New()
}

// oauthKafka starts a broker whose clients log in with tokens of the scope kafka. Sessions last as long as the token,
// three seconds at most.
func oauthKafka(t *testing.T) *kafka.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := kafka.Start(ctx, kafka.Options{Protocol: "SASL_PLAINTEXT", Settings: map[string]string{
		"listener.name.client.sasl.enabled.mechanisms": "OAUTHBEARER",
		"listener.name.client.oauthbearer.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer." +
			`OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker" ` +
			`unsecuredValidatorRequiredScope="kafka";`,
		"connections.max.reauth.ms": "3000",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	for _, topic := range []string{"once", "least", "cdc-outbox.positions"} {
		require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: topic, Partitions: 3}))
	}
	return c
}

func login(tokens wire.Tokens) *wire.SASL {
	return &wire.SASL{
		Mechanism: wire.OAuthBearer, Tokens: tokens, Extensions: map[string]string{"logicalCluster": "lkc-1"},
	}
}

// TestRealOAuth logs in to a real broker with tokens.
func TestRealOAuth(t *testing.T) {
	c := oauthKafka(t)
	t.Run("tokens end", func(t *testing.T) {
		t.Parallel()
		t.Run("exactly once", func(t *testing.T) {
			t.Parallel()
			tokensEnd(t, c, "once", &Transactions{Instance: "test"})
		})
		t.Run("at least once", func(t *testing.T) {
			t.Parallel()
			tokensEnd(t, c, "least", nil)
		})
	})
	t.Run("refused", func(t *testing.T) { tokensRefused(t, c) })
	t.Run("reader and check", func(t *testing.T) { tokensElsewhere(t, c) })
}

// tokensEnd produces through the ends of many tokens and through an outage of the endpoint that is longer than a
// token. Nothing is lost or repeated. No connection ends except where the outage outlasted its token.
func tokensEnd(t *testing.T, c *kafka.Cluster, topic string, tx *Transactions) {
	idp := newProvider(t, 4*time.Second)
	var lost atomic.Int32
	cfg := Config{
		Cluster: wire.Cluster{Brokers: c.Addrs()}, MetadataInterval: 500 * time.Millisecond, Transactions: tx,
		Reconnected: func() { lost.Add(1) },
	}
	cfg.SASL = login(idp.endpoint("right", "kafka"))
	opened := dials(&cfg)
	p, acked := bare(t, cfg)
	_, _, err := p.Begin(t.Context(), sink.Owner{ID: "slot-" + topic, SystemID: "1"})
	require.NoError(t, err)
	var sent uint32
	produce := func(d time.Duration) {
		for began := time.Now(); time.Since(began) < d; sent++ {
			require.NoError(t, p.ProduceAt(t.Context(), &router.Record{
				Topic: topic, Partition: -1, Key: []byte{byte(sent)}, Value: fmt.Appendf(nil, "%d", sent),
			}, 1, at(uint64(sent+1))))
			p.Mark()
			p.Flush()
			time.Sleep(time.Millisecond) //waits:ok the pace of a writer
		}
	}
	produce(time.Second)
	settled, issued := opened.Load(), idp.issued.Load()
	produce(10 * time.Second)
	require.NoError(t, p.Drain(t.Context()))
	require.Equal(t, settled, opened.Load(), "no connection was re-created")
	require.Zero(t, lost.Load())
	require.Zero(t, testutil.ToFloat64(p.metrics.retries.WithLabelValues(connectionLost.Name)))
	require.Zero(t, testutil.ToFloat64(p.metrics.epochBumps))
	require.Empty(t, p.Trouble())
	require.GreaterOrEqual(t, idp.issued.Load()-issued, int32(2))

	idp.down.Store(true)
	require.Eventually(t, func() bool {
		produce(50 * time.Millisecond)
		return slices.ContainsFunc(p.Trouble(), func(x sink.Trouble) bool { return x.Kind == sink.NoToken })
	}, testPatience, time.Millisecond)
	require.Equal(t, settled, opened.Load(), "connections live on while the endpoint is down")
	require.NotContains(t, fmt.Sprint(p.Trouble()), "right")
	require.Contains(t, fmt.Sprint(p.Trouble()), "503")
	produce(6 * time.Second)
	idp.down.Store(false)
	require.Eventually(t, func() bool { produce(50 * time.Millisecond); return len(p.Trouble()) == 0 },
		30*time.Second, time.Millisecond)
	produce(2 * time.Second)
	require.NoError(t, p.Drain(t.Context()))
	require.Equal(t, sent, uint32(acked.Load()))

	seen := map[string]int{}
	require.NoError(t, c.Each(t.Context(), []string{topic}, func(r *kgo.Record) { seen[string(r.Value)]++ }))
	t.Logf("%d records, %d tokens, %d connections at first and %d at the end", sent, idp.issued.Load(), settled,
		opened.Load())
	require.Len(t, seen, int(sent))
	for value, n := range seen {
		require.Equal(t, 1, n, value)
	}
}

// tokensRefused: the endpoint does not know the secret, or the broker asks for a scope that the token does not have.
func tokensRefused(t *testing.T, c *kafka.Cluster) {
	idp := newProvider(t, time.Minute)
	for name, test := range map[string]struct {
		tokens       *token.Cache
		says, remedy string
	}{
		"wrong secret":  {idp.endpoint("canary", "kafka"), "401 Unauthorized (invalid_client)", "client_secret"},
		"missing scope": {idp.endpoint("right", "other"), "insufficient_scope", "kafka.sasl.oauth.scopes"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := wire.Cluster{Brokers: c.Addrs(), SASL: login(test.tokens)}
			cluster.SetDefaults()
			_, err := wire.Dial(t.Context(), &cluster, c.Addrs()[0])
			var refused *wire.DialError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, sink.NotAuthenticated, refused.Kind)
			require.ErrorContains(t, err, test.says)
			require.Contains(t, refused.Remedy, test.remedy)
			require.NotContains(t, err.Error(), "canary")
		})
	}
}

// tokensElsewhere: what reads and what checks log in by the same door.
func tokensElsewhere(t *testing.T, c *kafka.Cluster) {
	idp := newProvider(t, time.Minute)
	cluster := wire.Cluster{Brokers: c.Addrs(), SASL: login(idp.endpoint("right", "kafka"))}
	r, err := reader.New(cluster)
	require.NoError(t, err)
	defer r.Close()
	spans, err := r.Spans(t.Context(), "least")
	require.NoError(t, err)
	require.Len(t, spans, 3)
	findings, err := check.Cluster(t.Context(), check.Options{Cluster: cluster}, []string{"least"})
	require.NoError(t, err)
	for _, f := range findings {
		require.NotEqual(t, preflight.Fail, f.Level, f.Found)
	}
	require.Equal(t, int32(1), idp.issued.Load(), "all connections of a process share one token")
}
