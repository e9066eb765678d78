package token

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Endpoint is where an identity provider gives tokens for a client's id and secret (RFC 6749, 4.4).
type Endpoint struct {
	URL      string
	ClientID string
	Secret   func() (string, error) // called for each token, so that a rotated secret is seen
	Scopes   []string
	Audience string
	Client   *http.Client // nil: http.DefaultClient
}

// New returns a source of tokens.
func (e Endpoint) New() *Cache {
	c := &clientcredentials.Config{ClientID: e.ClientID, TokenURL: e.URL, Scopes: e.Scopes}
	if e.Audience != "" {
		c.EndpointParams = url.Values{"audience": {e.Audience}}
	}
	return newCache(func(ctx context.Context) (wire.Token, error) { return e.fetch(ctx, c) })
}

// fetch is called by one goroutine at a time.
func (e Endpoint) fetch(ctx context.Context, c *clientcredentials.Config) (wire.Token, error) {
	secret, err := e.Secret()
	if err != nil {
		return wire.Token{}, e.failed(sink.NotAuthenticated, err, "Make kafka.sasl.oauth.client_secret readable.")
	}
	c.ClientSecret = secret
	client := http.Client{}
	if e.Client != nil {
		client = *e.Client
	}
	client.CheckRedirect = sameHost
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &client)
	t, err := c.Token(ctx)
	if err != nil {
		return wire.Token{}, e.classifyError(ctx, err, secret)
	}
	expires := t.Expiry
	if expires.IsZero() {
		expires = expiry(t.AccessToken)
	}
	return wire.Token{Value: t.AccessToken, Expires: expires}, nil
}

// sameHost follows a redirect only to where the secret may go: with 307 and 308 the request is sent again as it was.
func sameHost(req *http.Request, via []*http.Request) error {
	named, to := via[0].URL, req.URL
	upgraded := named.Scheme == "http" && to.Scheme == "https"
	if !strings.EqualFold(to.Hostname(), named.Hostname()) || len(via) >= 10 ||
		!upgraded && (to.Scheme != named.Scheme || portOf(to) != portOf(named)) {
		return http.ErrUseLastResponse
	}
	return nil
}

func portOf(u *url.URL) string {
	if u.Port() == "" {
		return map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Port()
}

func (e Endpoint) failed(kind sink.TroubleKind, err error, remedy string) *wire.TokenError {
	return &wire.TokenError{Kind: kind, Source: "token endpoint " + maskedAddress(e.URL), Err: err, Remedy: remedy}
}

// maskedAddress is an address without the parts that may be secret.
func maskedAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// classifyError words an error. Of the answer it takes the status and the codes of RFC 6749 only: what an endpoint
// repeats in its text may be the secret.
func (e Endpoint) classifyError(ctx context.Context, err error, secret string) *wire.TokenError {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		return e.unreachable(ctx, err, secret)
	}
	status := refused.Response.StatusCode
	what := fmt.Sprintf("it answers %d %s", status, http.StatusText(status))
	if code := word(refused.ErrorCode, secret); code != "" {
		what += " (" + code + ")"
	}
	cause := errors.New(what)
	switch {
	case refused.ErrorCode == "invalid_scope":
		return e.failed(sink.NotAuthenticated, cause, "Correct kafka.sasl.oauth.scopes, or let the identity provider "+
			"grant the scopes to the client.")
	case refused.ErrorCode == "unauthorized_client" || refused.ErrorCode == "unsupported_grant_type":
		return e.failed(sink.NotAuthenticated, cause, "Allow the grant client_credentials for the client at the "+
			"identity provider.")
	case status == http.StatusUnauthorized || status == http.StatusForbidden || refused.ErrorCode == "invalid_client":
		return e.failed(sink.NotAuthenticated, cause, "Correct kafka.sasl.oauth.client_id and client_secret, or "+
			"renew the secret at the identity provider.")
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status >= 300 && status < 400:
		return e.failed(sink.NotAuthenticated, cause, "Correct kafka.sasl.oauth.token_url: it is the address that "+
			"gives tokens, not that of the identity provider's page.")
	case status == http.StatusTooManyRequests || status >= 500:
		return e.failed(sink.NoToken, cause, "Look at the identity provider. Open connections are used until their "+
			"sessions end, and the endpoint is asked again automatically.")
	}
	return e.failed(sink.NotAuthenticated, cause, "Compare kafka.sasl.oauth (client_id, scopes, audience) with what "+
		"the identity provider expects.")
}

func (e Endpoint) unreachable(ctx context.Context, err error, secret string) *wire.TokenError {
	var (
		malformed   *url.Error
		certificate *tls.CertificateVerificationError
	)
	const remedy = "Check that the identity provider runs and that kafka.sasl.oauth.token_url is reachable from " +
		"here. Open connections are used until their sessions end."
	switch what := fault.Connection(err); {
	case ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded):
		return e.failed(sink.NoToken, fmt.Errorf("it does not answer within %s", fetchTimeout), remedy)
	case errors.As(err, &certificate):
		return e.failed(sink.NoToken, errors.New(strings.TrimSpace("it "+what)), "Give the authority that signed the "+
			"endpoint's certificate in kafka.sasl.oauth.ca.")
	case what != "":
		return e.failed(sink.NoToken, errors.New("it "+what), remedy)
	case errors.As(err, &malformed):
		return e.failed(sink.NoToken, errors.New(without(malformed.Err.Error(), secret)), remedy)
	}
	return e.failed(sink.NoToken, errors.New("its answer holds no token"), "Check that kafka.sasl.oauth.token_url is "+
		"the address that gives tokens.")
}

// word is an error code of RFC 6749 (5.2), empty for any other text.
func word(code, secret string) string {
	if code == "" || len(code) > 64 || code == secret || strings.Trim(code,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		return ""
	}
	return code
}

func without(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, "***")
}
