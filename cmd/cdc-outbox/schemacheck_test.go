package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// proposals is a registry with version 3 of subject orders.events-value, which takes no schema with the word "renamed".
func proposals(t *testing.T) (url string, posts *atomic.Int32) {
	posts = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
		switch {
		case !strings.Contains(r.URL.Path, "/subjects/orders.events-value/versions"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"error_code":40401}`)
		case r.Method == http.MethodGet:
			_, _ = fmt.Fprintf(w, `{"id":257,"version":3,"schema":%q}`, fmt.Sprintf(orderSchema, ""))
		default:
			posts.Add(1)
			body := make([]byte, r.ContentLength)
			_, _ = r.Body.Read(body)
			renamed := strings.Contains(string(body), "renamed")
			_, _ = fmt.Fprintf(w, `{"is_compatible":%t,"messages":["MISSING_DEFAULT: renamed"]}`, !renamed)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, posts
}

// A writer's CI sees before it registers a schema that the registry would refuse it, that rows do not fit it, or that
// the relay cannot use it.
func TestSchemaCheck(t *testing.T) {
	t.Parallel()
	url, posts := proposals(t)
	b := newBed(t, testkit.Postgres(t))
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.env = append(b.env, "CDC_OUTBOX_ROUTER_TOPIC=${aggregate_type}.events", "CDC_OUTBOX_ROUTER_REGISTRY_URL="+url,
		"CDC_OUTBOX_ROUTER_REGISTRY_ENCODE=true")
	b.insertPayload(`{"no": 1}`)
	b.insertPayload(`{"no": 2, "note": "` + canary + `"}`)
	dir := t.TempDir()
	file := filepath.Join(dir, "orders.events-value.avsc")
	write := func(schema string) { require.NoError(t, os.WriteFile(file, []byte(schema), 0o600)) }

	write(fmt.Sprintf(orderSchema, `,{"name":"note","type":"string","default":""}`))
	c := invoke(t, b.env, "schema", "check", dir)
	require.Equal(t, 0, c.code, c.all())
	require.Equal(t, "✓ orders.events-value "+file+" (AVRO)\n    Compatible, says the registry.\n    2 rows fit.\n",
		c.stdout)

	write(fmt.Sprintf(orderSchema, `,{"name":"note","type":"int","default":0}`))
	c = invoke(t, b.env, "schema", "check", file)
	require.Equal(t, 3, c.code, c.all())
	require.Contains(t, c.stdout, "1 of 2 rows do not fit. Event ")
	require.Contains(t, c.stdout, "$.note: expected int")
	require.NotContains(t, c.all(), canary)
	require.Contains(t, c.stderr, "1 of 1 schema does not fit")

	write(fmt.Sprintf(orderSchema, `,{"name":"renamed","type":"string"}`))
	c = invoke(t, b.env, "schema", "check", file, "--rows", "0", "--postgres-dsn", "postgres://127.0.0.1:1/none")
	require.Equal(t, 3, c.code, c.all())
	require.Contains(t, c.stdout, "Not compatible, says the registry.\n    - MISSING_DEFAULT: renamed")
	require.NotContains(t, c.stdout, "row")

	write(`{"type":"record","name":"Order"}`)
	c = invoke(t, b.env, "schema", "check", file, "--json")
	require.Equal(t, 3, c.code, c.all())
	require.Contains(t, c.stdout, `"unusable": "the record`)
	require.Contains(t, c.stdout, `"compatible": true`)

	before := posts.Load()
	c = invoke(t, b.env, "schema", "check", file, "--subject", "new-value")
	require.Equal(t, 3, c.code, c.all())
	require.Contains(t, c.stdout, "The registry does not have this subject yet.")
	require.Equal(t, before, posts.Load(), "there is nothing to compare with")
}

func TestSchemaCheckRefuses(t *testing.T) {
	t.Parallel()
	url, _ := proposals(t)
	file := filepath.Join(t.TempDir(), "orders.events-value.avsc")
	require.NoError(t, os.WriteFile(file, []byte(`"int"`), 0o600))
	c := invoke(t, nil, "schema", "check", file)
	require.Equal(t, 2, c.code, c.all())
	require.Contains(t, c.stderr, "router.registry.url: is not set")
	c = invoke(t, nil, "schema", "check")
	require.Equal(t, 2, c.code, c.all())
	_, port := deafAddress(t)
	c = invoke(t, nil, "schema", "check", file, "--rows", "0", "--router-registry-url", "http://127.0.0.1:"+port)
	require.Equal(t, 1, c.code, c.all())
	require.Contains(t, c.stderr, "it refuses connections")
	c = invoke(t, nil, "schema", "check", file, "--rows", "0", "--router-registry-url", url)
	require.Equal(t, 0, c.code, c.all())
}
