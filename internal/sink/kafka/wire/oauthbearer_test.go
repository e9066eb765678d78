package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// tokens gives one token, or an error.
type tokens struct {
	err   *TokenError
	ahead bool
}

func (k *tokens) Get(context.Context) (Token, error) {
	if k.err != nil {
		return Token{}, k.err
	}
	return Token{Value: "canary"}, nil
}

func (k *tokens) Ahead() bool          { return k.ahead }
func (k *tokens) Trouble() *TokenError { return k.err }

// login runs a login against answers of a broker, and returns what was sent.
func login(t *testing.T, s *SASL, answers ...*saslauthenticate.Response) (*Conn, []string, error) {
	t.Helper()
	w := &Conn{Addr: "b:9092", sasl: s}
	var sent []string
	err := w.Authenticate(t.Context(), func(req protocol.Message) (protocol.Message, error) {
		switch r := req.(type) {
		case *saslhandshake.Request:
			sent = append(sent, r.Mechanism)
			return &saslhandshake.Response{}, nil
		case *saslauthenticate.Request:
			sent = append(sent, string(r.AuthBytes))
			next := answers[0]
			answers = answers[1:]
			return next, nil
		}
		panic(req)
	})
	return w, sent, err
}

// TestOAuthBearerOnTheWire: the bytes of RFC 7628 with the extensions of KIP-342, for both mechanisms.
func TestOAuthBearerOnTheWire(t *testing.T) {
	s := &SASL{
		Mechanism: OAuthBearer, Tokens: &tokens{},
		Extensions: map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool-1"},
	}
	w, sent, err := login(t, s, &saslauthenticate.Response{SessionLifetimeMs: 60_000})
	require.NoError(t, err)
	require.Equal(t, []string{
		"OAUTHBEARER",
		"n,,\x01auth=Bearer canary\x01identityPoolId=pool-1\x01logicalCluster=lkc-1\x01\x01",
	}, sent)
	require.False(t, w.renewAt.IsZero())
	_, sent, err = login(t, &SASL{Mechanism: AWSMSKIAM, Tokens: &tokens{}}, &saslauthenticate.Response{})
	require.NoError(t, err)
	require.Equal(t, []string{"OAUTHBEARER", "n,,\x01auth=Bearer canary\x01\x01"}, sent)
}

// TestOAuthBearerRefused: what the broker says about the token becomes an error with a remedy, without the token.
//
// Bug (configuration): Errors showed a token that a broker or a collector repeated. Cost: a token in the log. Also:
// `TestMasked` in `internal/base/traces`.
func TestOAuthBearerRefused(t *testing.T) {
	for name, test := range map[string]struct{ mechanism, challenge, says, remedy string }{
		"token":   {OAuthBearer, `{"status":"invalid_token"}`, "invalid_token", "audience"},
		"scope":   {OAuthBearer, `{"status":"insufficient_scope","scope":"kafka"}`, "scope kafka", "oauth.scopes"},
		"no JSON": {OAuthBearer, "\x00\xff", "no reason that is JSON", "audience"},
		"echo":    {OAuthBearer, `{"status":"invalid_token canary"}`, "invalid_token ***", "audience"},
		"hostile": {OAuthBearer, `{"status":"a\nb\u001b[0m"}`, "a b [0m", "audience"},
		"AWS":     {AWSMSKIAM, `{"status":"invalid_request"}`, "invalid_request", "kafka-cluster:Connect"},
	} {
		t.Run(name, func(t *testing.T) {
			_, sent, err := login(t, &SASL{Mechanism: test.mechanism, Tokens: &tokens{}},
				&saslauthenticate.Response{AuthBytes: []byte(test.challenge)},
				&saslauthenticate.Response{ErrorCode: 58, ErrorMessage: test.challenge})
			require.Equal(t, "\x01", sent[2], "the broker fails the exchange only after this message")
			var refused *DialError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, sink.NotAuthenticated, refused.Kind)
			require.ErrorContains(t, err, test.says)
			require.Contains(t, refused.Remedy, test.remedy)
			require.NotContains(t, err.Error(), "canary")
		})
	}
	_, _, err := login(t, &SASL{Mechanism: OAuthBearer, Tokens: &tokens{}}, &saslauthenticate.Response{ErrorCode: 58})
	require.ErrorContains(t, err, "SASL_AUTHENTICATION_FAILED", "without a reason")
}

// TestRenewalWaitsForItsToken while the session lasts, and not longer.
func TestRenewalWaitsForItsToken(t *testing.T) {
	source := &tokens{}
	now := time.Now()
	w := &Conn{
		sasl:    &SASL{Mechanism: OAuthBearer, Tokens: source},
		renewAt: now.Add(-time.Second), renewBy: now.Add(time.Hour),
	}
	require.False(t, w.RenewalDue(), "there is no token yet, and requests continue")
	require.True(t, w.renewAt.After(now))
	w.renewAt, source.ahead = now.Add(-time.Second), true
	require.True(t, w.RenewalDue())
	source.ahead, w.renewBy = false, now.Add(-time.Millisecond)
	require.True(t, w.RenewalDue(), "the session is about to end")
}

// TestNoTokenNoConnection: the brokers are not bothered, and the error is that of the token.
func TestNoTokenNoConnection(t *testing.T) {
	source := &tokens{err: &TokenError{
		Kind: sink.NoToken, Source: "token endpoint", Err: errors.New("it is down"), Remedy: "Start it.",
	}}
	c := Cluster{Brokers: []string{"b:9092"}, SASL: &SASL{Mechanism: OAuthBearer, Tokens: source}}
	c.SetDefaults()
	c.Dial = nil // would panic
	_, err := Dial(t.Context(), &c, "b:9092")
	var refused *DialError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, sink.NoToken, refused.Kind)
	require.Equal(t, "SASL OAUTHBEARER: the token endpoint gives no token: it is down", err.Error())
	require.Equal(t, "Start it.", c.SASL.Lacking().Remedy)
	require.True(t, refused.Kind.Passes())
}
