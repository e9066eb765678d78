package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// The mechanisms that show a token. AWS_MSK_IAM is this program's name for OAUTHBEARER with a token that is a signed
// request of AWS, which is how clients without Java log in to Amazon MSK.
const (
	OAuthBearer = "OAUTHBEARER"
	AWSMSKIAM   = "AWS_MSK_IAM"
)

// oauthBearer is the client side of RFC 7628, with the extensions of KIP-342.
type oauthBearer struct {
	token      string
	extensions map[string]string
}

func (o *oauthBearer) Name() string { return OAuthBearer }

// separator is kvsep in RFC 7628.
const separator = "\x01"

func (o *oauthBearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	var b strings.Builder
	b.WriteString("n,," + separator + "auth=Bearer " + o.token + separator)
	for _, name := range slices.Sorted(maps.Keys(o.extensions)) {
		b.WriteString(name + "=" + o.extensions[name] + separator)
	}
	b.WriteString(separator)
	return &bearerSession{token: o.token}, []byte(b.String()), nil
}

// bearerSession is one exchange. A broker that refuses the token first says why, and only after another message of the
// client, which is one separator, does it fail the exchange (RFC 7628, 3.2.3).
type bearerSession struct {
	token     string
	challenge []byte
}

func (s *bearerSession) Next(_ context.Context, challenge []byte) (done bool, answer []byte, err error) {
	switch {
	case len(s.challenge) > 0:
		return false, nil, s.refused()
	case len(challenge) == 0:
		return true, nil, nil
	}
	s.challenge = challenge
	return false, []byte(separator), nil
}

// challenger is a session in which the broker may have said why it refuses.
type challenger interface{ refused() error }

// refused is the broker's refusal, nil for none.
func (s *bearerSession) refused() error {
	if len(s.challenge) == 0 {
		return nil
	}
	var said struct{ Status, Scope string }
	if json.Unmarshal(s.challenge, &said) != nil || said.Status == "" {
		return &challengeError{status: "no reason that is JSON"}
	}
	return &challengeError{status: s.withoutToken(said.Status), scope: s.withoutToken(said.Scope)}
}

// withoutToken is a text from the far side without the token, which some brokers repeat.
func (s *bearerSession) withoutToken(text string) string {
	if s.token != "" {
		text = strings.ReplaceAll(text, s.token, "***")
	}
	return printable(text)
}

// printable bounds a text from the far side.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

// challengeError is the reason that a broker gave for refusing a token.
type challengeError struct{ status, scope string }

func (e *challengeError) Error() string {
	if e.scope != "" {
		return fmt.Sprintf("the broker refuses the token: %s, it asks for the scope %s", e.status, e.scope)
	}
	return "the broker refuses the token: " + e.status
}

// remedy says what to compare. Kafka's own validator knows two statuses: invalid_token and, with a scope it requires,
// insufficient_scope; other brokers have their own.
func (e *challengeError) remedy(mechanism string) string {
	switch {
	case mechanism == AWSMSKIAM:
		return "See whether the role may kafka-cluster:Connect to this cluster, whether kafka.sasl.aws.region is the " +
			"cluster's, and whether the clock of this machine is right."
	case e.scope != "" || strings.Contains(e.status, "scope"):
		return "Ask for the scope in kafka.sasl.oauth.scopes, and let the identity provider grant it to the client."
	}
	return "Compare the token's issuer, audience and scope with what the broker's listener expects, and the clocks " +
		"of both. The broker must have the keys of this identity provider."
}

// remedyFor is the remedy for a refused login.
func (s *SASL) remedyFor(err error) string {
	var (
		refused *challengeError
		token   *TokenError
	)
	switch {
	case errors.As(err, &token):
		return token.Remedy
	case errors.As(err, &refused):
		return refused.remedy(s.Mechanism)
	case s.bearer():
		return (&challengeError{}).remedy(s.Mechanism)
	}
	return saslRemedy
}

func (s *SASL) bearer() bool { return s.Mechanism == OAuthBearer || s.Mechanism == AWSMSKIAM }

// wireName is the mechanism as a broker knows it.
func (s *SASL) wireName() string {
	if s.bearer() {
		return OAuthBearer
	}
	return s.Mechanism
}
