package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Token is the credential that a client shows to a broker with OAUTHBEARER.
type Token struct {
	Value   string
	Expires time.Time // zero: not known
}

// Tokens gives the tokens of one login. Its methods may be called by any goroutine.
type Tokens interface {
	// Get returns a token that is valid, and waits for it. Its error is a *TokenError, or that of the context.
	Get(ctx context.Context) (Token, error)

	// Ahead reports whether Get returns a recent token at once. Where it would not, a token is fetched in the
	// background.
	Ahead() bool

	// Trouble is why there is no recent token, nil for nothing.
	Trouble() *TokenError
}

// TokenError says why there is no token. It never holds a token, or what a token is bought with.
type TokenError struct {
	Kind   sink.TroubleKind // NoToken, where waiting may help, or NotAuthenticated
	Source string           // e.g. `token endpoint https://login.example/token`
	Err    error
	Remedy string
}

func (e *TokenError) Error() string { return "the " + e.Source + " gives no token: " + e.Err.Error() }

func (e *TokenError) Unwrap() error { return e.Err }

// await waits until there is a token, where the mechanism needs one.
func (s *SASL) await(ctx context.Context) error {
	if s == nil || !s.bearer() {
		return nil
	}
	_, err := s.Tokens.Get(ctx)
	var token *TokenError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &token):
		return s.without(token)
	}
	return &DialError{sink.NoToken, fmt.Errorf("SASL %s: no token: %w", s.Mechanism, err), "", ""}
}

// without is the error of a login that has no token.
func (s *SASL) without(e *TokenError) *DialError {
	return &DialError{e.Kind, fmt.Errorf("SASL %s: %w", s.Mechanism, e), e.Remedy, ""}
}

// Lacking is why there is no recent token although connections may still live from the token before; nil for nothing.
func (s *SASL) Lacking() *DialError {
	if s == nil || !s.bearer() {
		return nil
	}
	if e := s.Tokens.Trouble(); e != nil {
		return s.without(e)
	}
	return nil
}
