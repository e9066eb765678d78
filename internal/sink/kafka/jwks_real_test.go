//go:build e2e

package kafka

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// signer signs tokens with a key that it publishes as a JSON Web Key Set (RFC 7517). A nil signer does not sign.
type signer struct {
	*httptest.Server

	mu   sync.Mutex
	key  *rsa.PrivateKey
	id   string
	keys []map[string]string // published, old ones too
}

func newSigner(t *testing.T) *signer {
	s := &signer{}
	s.rotate(t)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": s.keys})
	}))
	t.Cleanup(s.Close)
	return s
}

// rotate signs with a new key from here on.
func (s *signer) rotate(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	b64 := base64.RawURLEncoding.EncodeToString
	s.key, s.id = key, fmt.Sprintf("key-%d", len(s.keys)+1)
	s.keys = append(s.keys, map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": s.id, "n": b64(key.N.Bytes()),
		"e": b64(big.NewInt(int64(key.E)).Bytes()),
	})
}

func (s *signer) token(claims []byte) string {
	b64 := base64.RawURLEncoding.EncodeToString
	if s == nil {
		return b64([]byte(`{"alg":"none"}`)) + "." + b64(claims) + "."
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := b64(fmt.Appendf(nil, `{"alg":"RS256","typ":"JWT","kid":%q}`, s.id)) + "." + b64(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err) // a 2048-bit key signs 32 bytes
	}
	return text + "." + b64(signature)
}

// verifyingKafka starts a broker that verifies the signature, the issuer and the audience of each token.
func verifyingKafka(t *testing.T, s *signer) *kafka.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const oauth = "org.apache.kafka.common.security.oauthbearer."
	settings := map[string]string{
		"connections.max.reauth.ms":            "2000",
		"sasl.oauthbearer.jwt.validator.class": oauth + "BrokerJwtValidator", // Kafka 4.1.0 verifies nothing without it
	}
	for name, value := range map[string]string{
		"sasl.enabled.mechanisms":                                     "OAUTHBEARER",
		"oauthbearer.sasl.jaas.config":                                oauth + "OAuthBearerLoginModule required;",
		"oauthbearer.sasl.server.callback.handler.class":              oauth + "OAuthBearerValidatorCallbackHandler",
		"oauthbearer.sasl.oauthbearer.jwks.endpoint.url":              s.URL,
		"oauthbearer.sasl.oauthbearer.expected.issuer":                "idp.example",
		"oauthbearer.sasl.oauthbearer.expected.audience":              "kafka.example",
		"oauthbearer.sasl.oauthbearer.jwks.endpoint.refresh.ms":       "1000",
		"oauthbearer.sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
	} {
		settings["listener.name.client."+name] = value
	}
	c, err := kafka.Start(ctx, kafka.Options{
		Version: "4.1.0", Protocol: "SASL_PLAINTEXT", Settings: settings, // the classes have other names before 4.0
		JVM: []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + s.URL},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: "signed", Partitions: 3}))
	return c
}

// TestRealSignedTokens logs in with signed tokens, through many logins and a change of the key. A token that another
// key has signed is refused, and so is a token without a signature.
func TestRealSignedTokens(t *testing.T) {
	s := newSigner(t)
	c := verifyingKafka(t, s)
	// A session is renewed after 85 % of its life; the rest has to be enough for a broker on a busy machine.
	idp := newProvider(t, 8*time.Second)
	idp.signer = s
	cfg := Config{
		Cluster: wire.Cluster{Brokers: c.Addrs(), SASL: login(idp.endpoint("right", "kafka"))}, Reconnected: func() {
			t.Error("a connection was lost")
		},
	}
	p, _ := bare(t, cfg)
	_, _, err := p.Begin(t.Context(), sink.Owner{ID: "slot", SystemID: "1"})
	require.NoError(t, err)
	sent := 0
	produce := func(d time.Duration) {
		for began := time.Now(); time.Since(began) < d; sent++ {
			require.NoError(t, p.ProduceAt(t.Context(), &router.Record{
				Topic: "signed", Partition: -1, Key: []byte{byte(sent)}, Value: fmt.Append(nil, sent),
			}, 1, at(uint64(sent+1))))
			p.Flush()
			time.Sleep(5 * time.Millisecond) //waits:ok the pace of a writer
		}
	}
	produce(6 * time.Second)
	s.rotate(t)
	produce(12 * time.Second)
	require.NoError(t, p.Drain(t.Context()))
	require.Empty(t, p.Trouble())
	require.GreaterOrEqual(t, idp.issued.Load(), int32(3))
	seen := map[string]int{}
	require.NoError(t, c.Each(t.Context(), []string{"signed"}, func(r *kgo.Record) { seen[string(r.Value)]++ }))
	require.Len(t, seen, sent)
	for n := range maps.Values(seen) {
		require.Equal(t, 1, n)
	}

	for name, signed := range map[string]*signer{"by another key": newSigner(t), "not at all": nil} {
		t.Run("signed "+name, func(t *testing.T) {
			idp := newProvider(t, time.Minute)
			idp.signer = signed
			cluster := wire.Cluster{Brokers: c.Addrs(), SASL: login(idp.endpoint("right", "kafka"))}
			cluster.SetDefaults()
			_, err := wire.Dial(t.Context(), &cluster, c.Addrs()[0])
			var refused *wire.DialError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, sink.NotAuthenticated, refused.Kind)
			require.ErrorContains(t, err, "the broker refuses the token: invalid_token")
			require.Contains(t, refused.Remedy, "issuer, audience and scope")
		})
	}
}
