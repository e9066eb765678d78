package token

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
)

const canary = "hunter2canary"

func jwt(exp time.Time) string {
	b64 := base64.RawURLEncoding.EncodeToString
	return b64([]byte(`{"alg":"none"}`)) + "." + b64(fmt.Appendf(nil, `{"exp":%d}`, exp.Unix())) + ".c2ln"
}

// TestEndpointIsAsked with the client's name, secret, scopes and audience.
func TestEndpointIsAsked(t *testing.T) {
	var form url.Values
	var user, password string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		form = r.PostForm
		user, password, _ = r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"access_token":"t","token_type":"Bearer","expires_in":60}`)
	}))
	defer s.Close()
	c := Endpoint{
		URL: s.URL, ClientID: "relay", Secret: func() (string, error) { return canary, nil },
		Scopes: []string{"a", "b"}, Audience: "kafka",
	}.New()
	began := time.Now()
	token, err := c.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "t", token.Value)
	require.WithinRange(t, token.Expires, began.Add(time.Minute), time.Now().Add(time.Minute))
	require.Equal(t, []string{"relay", canary}, []string{user, password})
	require.Equal(t, url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"kafka"}}, form)
}

// TestEndpointRefuses: the error names the cause and the remedy, and whether waiting helps. It never holds the secret,
// whatever the endpoint repeats.
func TestEndpointRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		status       int
		body         string
		kind         sink.TroubleKind
		says, remedy string
	}{
		"secret": {
			401, `{"error":"invalid_client","error_description":"` + canary + `"}`, sink.NotAuthenticated,
			"401 Unauthorized (invalid_client)", "client_secret",
		},
		"echo":  {400, `{"error":"` + canary + `"}`, sink.NotAuthenticated, "400 Bad Request", "kafka.sasl.oauth"},
		"scope": {400, `{"error":"invalid_scope"}`, sink.NotAuthenticated, "invalid_scope", "scopes"},
		"grant": {
			400, `{"error":"unauthorized_client"}`, sink.NotAuthenticated, "unauthorized_client", "client_credentials",
		},
		"page":    {404, `<html>`, sink.NotAuthenticated, "404 Not Found", "token_url"},
		"down":    {503, canary, sink.NoToken, "503 Service Unavailable", "identity provider"},
		"busy":    {429, ``, sink.NoToken, "429 Too Many Requests", "identity provider"},
		"nothing": {200, `{}`, sink.NoToken, "holds no token", "token_url"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				_, _ = fmt.Fprint(w, test.body)
			}))
			defer s.Close()
			refused(t, s.URL+"/token", test.kind, test.says, test.remedy)
		})
	}
	t.Run("no server", func(t *testing.T) {
		refused(t, "http://127.0.0.1:1", sink.NoToken, "refuses connections", "token_url")
	})
	t.Run("unknown authority", func(t *testing.T) {
		s := httptest.NewTLSServer(nil)
		defer s.Close()
		refused(t, s.URL, sink.NoToken, "certificate", "kafka.sasl.oauth.ca")
	})
}

// TestEndpointRedirects: the client's secret stays with the host that was named, and on TLS.
//
// Bug (configuration): The redirects of a token endpoint were followed to any host. Cost: `client_secret` sent to
// another host, also without TLS.
func TestEndpointRedirects(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if r.PostForm.Get("client_secret") != "" || r.Header.Get("Authorization") != "" {
			t.Error("the secret was sent to another host")
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer stranger.Close()
	var there string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/new" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"access_token":"t","token_type":"Bearer","expires_in":60}`)
			return
		}
		http.Redirect(w, r, there, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	for _, address := range []string{stranger.URL + "/new", s.URL + "/loop"} {
		there = address
		refused(t, s.URL+"/loop", sink.NotAuthenticated, "307 Temporary Redirect", "token_url")
	}
	there = "/new"
	c := Endpoint{URL: s.URL, ClientID: "relay", Secret: func() (string, error) { return canary, nil }}.New()
	token, err := c.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "t", token.Value)
}

// TestSameHost: the secret goes where it was sent, or to the same host with TLS.
func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		named, to string
		follow    bool
	}{
		{"https://idp/token", "https://idp/token/", true},
		{"https://idp:443/token", "https://idp/token/", true},
		{"https://IdP/token", "https://idp/token/", true},
		{"http://idp:8080/token", "https://idp:8443/token", true},
		{"https://idp/token", "http://idp/token", false},
		{"https://idp/token", "https://idp:8443/token", false},
		{"https://idp/token", "https://idp.example/token", false},
		{"http://idp/token", "https://other/token", false},
	} {
		via, err := http.NewRequest(http.MethodPost, c.named, nil)
		require.NoError(t, err)
		req, err := http.NewRequest(http.MethodPost, c.to, nil)
		require.NoError(t, err)
		require.Equal(t, c.follow, sameHost(req, []*http.Request{via}) == nil, "%s to %s", c.named, c.to)
	}
}

func refused(t *testing.T, address string, kind sink.TroubleKind, says, remedy string) {
	t.Helper()
	c := Endpoint{
		URL: address + "?key=" + canary, ClientID: "relay", Secret: func() (string, error) { return canary, nil },
	}.New()
	_, err := c.Get(t.Context())
	var e *wire.TokenError
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind, e.Kind)
	require.ErrorContains(t, err, says)
	require.ErrorContains(t, err, address)
	require.Contains(t, e.Remedy, remedy)
	require.NotContains(t, err.Error()+e.Remedy, canary)
}

// TestFile: read again for each login; a token that has ended is not shown to a broker.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	f := File{Path: path, Read: func() (string, error) { b, err := os.ReadFile(path); return string(b), err }}
	for _, text := range []string{"opaque", jwt(time.Now().Add(time.Hour))} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		token, err := f.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, text, token.Value)
	}
	for text, says := range map[string]string{
		jwt(time.Now().Add(-time.Hour)): "ended at", canary + " two": "more than a token",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := f.Get(t.Context())
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), canary)
	}
	require.NoError(t, os.Remove(path))
	_, err := f.Get(t.Context())
	require.ErrorContains(t, err, path)
}

func FuzzExpiry(f *testing.F) {
	f.Add(jwt(time.Unix(1<<33, 0)))
	f.Add("a.e30.b")
	f.Fuzz(func(t *testing.T, text string) {
		if at := expiry(text); !at.IsZero() {
			require.Greater(t, at.UnixMilli(), int64(0))
		}
	})
}

// TestEndpointLies: whatever an endpoint answers, there is an error in time, and memory is bounded.
func TestEndpointLies(t *testing.T) {
	t.Parallel()
	endpoint := lies.StartEndpoint(t)
	for _, answer := range lies.HTTP() {
		endpoint.Answer(answer)
		c := Endpoint{URL: endpoint.URL, ClientID: "relay", Secret: func() (string, error) { return canary, nil }}.New()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // some answers have no end
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Get(ctx)
		runtime.ReadMemStats(&after)
		cancel()
		require.Error(t, err, answer.Name)
		require.NotContains(t, err.Error(), canary, answer.Name)
		require.Equal(t, fault.Printable(err.Error()), err.Error(), answer.Name)
		// net/http reads 10 MiB of headers, and tries a failed connection again.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20), answer.Name)
	}
}
