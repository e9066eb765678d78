package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Login is a way to log in to a broker (SASL, RFC 4422): Plain, ScramSHA256, ScramSHA512, OAuthBearer, or one's own. It
// is used for each connection, by several goroutines.
type Login interface {
	// Mechanism is its registered name.
	Mechanism() string
	// Start begins a login with the broker at the address. It returns the first message, and a function that gets each
	// answer of the broker and returns the next message, and true if no answer is awaited then.
	Start(ctx context.Context, address string) (first []byte, next func([]byte) ([]byte, bool, error), err error)
}

// Secret returns a name and a password. It is asked for each login, so they may change.
type Secret func(ctx context.Context) (user, password string, err error)

// Plain is SASL PLAIN. Use it with TLS: it sends the password.
func Plain(secret Secret) Login {
	return login{plain.Plain(func(ctx context.Context) (plain.Auth, error) {
		user, password, err := secret(ctx)
		return plain.Auth{User: user, Pass: password}, err
	})}
}

// ScramSHA256 is SCRAM-SHA-256.
func ScramSHA256(secret Secret) Login { return login{scram.Sha256(scramSecret(secret))} }

// ScramSHA512 is SCRAM-SHA-512.
func ScramSHA512(secret Secret) Login { return login{scram.Sha512(scramSecret(secret))} }

func scramSecret(secret Secret) func(context.Context) (scram.Auth, error) {
	return func(ctx context.Context) (scram.Auth, error) {
		user, password, err := secret(ctx)
		return scram.Auth{User: user, Pass: password}, err
	}
}

// OAuthBearer is OAUTHBEARER (KIP-255). token returns a token that is valid now; it is asked again before the broker
// ends a session (KIP-368).
func OAuthBearer(token func(ctx context.Context) (string, error)) Login {
	return login{oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		t, err := token(ctx)
		return oauth.Auth{Token: t}, err
	})}
}

// login is a mechanism of the client as a Login.
type login struct{ of sasl.Mechanism }

func (l login) Mechanism() string { return l.of.Name() }

func (l login) Start(ctx context.Context, address string) ([]byte, func([]byte) ([]byte, bool, error), error) {
	session, first, err := l.of.Authenticate(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	return first, func(challenge []byte) ([]byte, bool, error) {
		if err := believable(l.Mechanism(), challenge); err != nil {
			return nil, false, err
		}
		done, response, err := session.Challenge(challenge)
		return response, done, err
	}, nil
}

// maxIterations bounds how often a broker may have a password hashed. Kafka's default is 4096.
const maxIterations = 1_000_000

// believable refuses a challenge of SCRAM that would keep the process busy for hours (RFC 5802, attribute i).
func believable(mechanism string, challenge []byte) error {
	if !strings.HasPrefix(mechanism, "SCRAM-") {
		return nil
	}
	for attribute := range strings.SplitSeq(string(challenge), ",") {
		count, isCount := strings.CutPrefix(attribute, "i=")
		if n, err := strconv.Atoi(count); isCount && (err != nil || n > maxIterations) {
			return fmt.Errorf("the broker asks for %.20q iterations of SCRAM, more than %d", count, maxIterations)
		}
	}
	return nil
}

// mechanism is a Login as a mechanism of the client.
type mechanism struct{ of Login }

func (m mechanism) Name() string { return m.of.Mechanism() }

func (m mechanism) Authenticate(ctx context.Context, address string) (sasl.Session, []byte, error) {
	first, next, err := m.of.Start(ctx, address)
	if err == nil && next == nil {
		err = errors.New("consumer: the login answers no challenge")
	}
	return session(next), first, err
}

type session func([]byte) ([]byte, bool, error)

func (s session) Challenge(challenge []byte) (bool, []byte, error) {
	response, done, err := s(challenge)
	return done, response, err
}
