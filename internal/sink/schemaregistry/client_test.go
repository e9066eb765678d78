package schemaregistry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/router"
)

var orders = router.UnresolvedSchema{Subject: "orders-value", Version: 3}

// asking serves one handler, and returns a client of it.
func asking(t *testing.T, h http.HandlerFunc) *Client {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Client{URL: s.URL + "/", HTTP: s.Client()}
}

func answering(t *testing.T, status int, kind, body string) *Client {
	return asking(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	})
}

const registryJSON = "application/vnd.schemaregistry.v1+json"

func TestRequest(t *testing.T) {
	var seen *http.Request
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		_, _ = fmt.Fprint(w, `{"subject":":.eu:a/b c-value","version":9,"id":7,"schemaType":"JSON","schema":"{}"}`)
	})
	c.Authorize = func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth("user", "secret")
		return nil
	}
	need := router.UnresolvedSchema{Subject: ":.eu:a/b c-value", Version: router.LatestSchema}
	got, err := c.lookup(t.Context(), need)
	require.NoError(t, err)
	require.Equal(t, answer{ID: 7, State: router.SchemaKnown}, got.answer)
	require.Equal(t, "/subjects/:.eu:a%2Fb%20c-value/versions/latest", seen.URL.EscapedPath())
	require.Equal(t, http.MethodGet, seen.Method)
	user, password, _ := seen.BasicAuth()
	require.Equal(t, "user secret", user+" "+password)
	require.Contains(t, seen.Header.Get("Accept"), registryJSON)
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		kind   string
		body   string

		state router.SchemaAnswer // without an error
		err   string
		next  string
		retry bool
	}{
		"no subject": {
			status: 404, kind: registryJSON, body: `{"error_code":40401,"message":"x"}`, state: router.SchemaNoSubject,
		},
		"no version": {
			status: 404, kind: "application/json", body: `{"error_code":40402}`, state: router.SchemaNoVersion,
		},
		"another server's 404": {
			status: 404, kind: "text/html", body: `{"error_code":40401}`, err: "it answers 404 Not Found",
			next: "Correct router.registry.url",
		},
		"a 404 of another kind": {
			status: 404, kind: registryJSON, body: `{"error_code":404}`, err: "it answers 404 Not Found",
			next: "Correct router.registry.url",
		},
		"not logged in": {
			status: 401, kind: registryJSON, body: `{"error_code":40101,"message":"secret"}`,
			err: "it answers 401 Unauthorized (code 40101)", next: "Correct router.registry.username",
		},
		"no right": {status: 403, kind: registryJSON, err: "it answers 403 Forbidden", next: "Give the user"},
		"a crash":  {status: 500, kind: registryJSON, body: `{"error_code":50001}`, err: "500", retry: true},
		"an overload": {
			status: 429, kind: "text/html", body: "x", err: "429 Too Many Requests", retry: true, next: "Look at the",
		},
		"an unknown status": {status: 599, err: "it answers 599", retry: true},
		"a redirect":        {status: 307, err: "it answers 307", next: "redirects are not followed"},
		"no content":        {status: 204, err: "it answers 204 No Content", next: "Compare router.registry"},
		"unprocessable": {
			status: 422, kind: registryJSON, body: `{"error_code":42202}`, err: "422 Unprocessable Entity (code 42202)",
			next: "Compare router.registry",
		},
		"a page":       {status: 200, kind: "text/html", body: "<html>", err: "not a version of a subject"},
		"other JSON":   {status: 200, kind: registryJSON, body: `{"id":"7","version":3}`, err: "not a version"},
		"no id":        {status: 200, kind: registryJSON, body: `{"version":3}`, err: "not a version"},
		"no version 1": {status: 200, kind: registryJSON, body: `{"id":3}`, err: "not a version"},
		"a list":       {status: 200, kind: registryJSON, body: `[1,2]`, err: "not a version"},
		"nothing":      {status: 200, kind: registryJSON, err: "closes the connection", retry: true},
		"a negative id": {
			status: 200, kind: registryJSON, body: `{"id":-1,"version":3}`, err: "the id -1, which no frame can hold",
		},
		"a large id": {
			status: 200, kind: registryJSON, body: `{"id":2147483648,"version":3}`, err: "the id 2147483648",
		},
		"another version": {
			status: 200, kind: registryJSON, body: `{"id":1,"version":4}`, err: "it answers with version 4",
		},
		"a huge schema": {
			status: 200, kind: registryJSON, err: "its answer is longer than 8388608 bytes",
			body: `{"schema":"` + strings.Repeat("x", maxAnswer+1) + `","id":1,"version":3}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answering(t, c.status, c.kind, c.body).lookup(t.Context(), orders)
			if c.err == "" {
				require.NoError(t, err)
				require.Equal(t, answer{State: c.state}, got.answer)
				return
			}
			var e *Error
			require.ErrorAs(t, err, &e)
			require.ErrorContains(t, err, c.err)
			require.NotContains(t, err.Error(), "secret")
			require.Contains(t, e.Next, c.next)
			require.NotEmpty(t, e.Next)
			require.Equal(t, c.retry, e.Passes)
			require.Equal(t, c.retry, fault.KindOf(e.Fault()) == fault.Retry)
		})
	}
}

// A login goes to no other host, wherever the registry sends the client.
func TestNoRedirect(t *testing.T) {
	elsewhere := asking(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	c.Authorize = func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth("user", "secret")
		return nil
	}
	_, err := c.lookup(t.Context(), orders)
	require.ErrorContains(t, err, "307")
}

func TestUnreachable(t *testing.T) {
	_, err := (&Client{URL: "http://127.0.0.1:1"}).lookup(t.Context(), orders)
	require.EqualError(t, err, "schema registry http://127.0.0.1:1: it refuses connections")
	require.ErrorAs(t, err, new(*Error))

	begun := make(chan struct{})
	c := asking(t, func(w http.ResponseWriter, r *http.Request) { // the answer begins, and does not end
		_, _ = fmt.Fprint(w, `{"id":1,`)
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err = c.lookup(ctx, orders)
	require.ErrorContains(t, err, "it does not answer")

	c = asking(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err = c.lookup(t.Context(), orders)
	require.ErrorContains(t, err, "it closes the connection")

	_, err = (&Client{URL: "https://[::1"}).lookup(t.Context(), orders)
	require.ErrorContains(t, err, "its address is not one")
}

func TestLoginThatCannotBeRead(t *testing.T) {
	c := &Client{URL: "http://127.0.0.1:1", Authorize: func(context.Context, *http.Request) error {
		return errors.New("open /run/secrets/x: no such file or directory")
	}}
	_, err := c.lookup(t.Context(), orders)
	require.ErrorContains(t, err, "no such file")
	var e *Error
	require.ErrorAs(t, err, &e)
	require.False(t, e.Passes)
}
