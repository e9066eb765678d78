package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// schemaRegistry is a stand-in with Confluent's API, which asks for a password.
type schemaRegistry struct {
	*httptest.Server

	mu    sync.Mutex
	away  bool
	ids   map[string]int // by subject and version
	texts map[string]string
	asked map[string]int
}

func newSchemaRegistry(t *testing.T) *schemaRegistry {
	s := &schemaRegistry{ids: map[string]int{}, asked: map[string]int{}, texts: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
		what := strings.TrimPrefix(r.URL.Path, "/subjects/")
		s.asked[what]++
		id, known := s.ids[what]
		user, password, _ := r.BasicAuth()
		switch {
		case s.away:
			w.WriteHeader(http.StatusServiceUnavailable)
		case user != "relay" || password != canary:
			w.WriteHeader(http.StatusUnauthorized)
		case !known:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"error_code":40402,"message":"Version not found."}`)
		default:
			_, version, _ := strings.Cut(what, "/versions/")
			if version == "latest" {
				version = "5"
			}
			if s.texts[what] == "" {
				s.texts[what] = `{"schema":"\"string\"",`
			}
			_, _ = fmt.Fprintf(w, `%s"subject":"x","version":%s,"id":%d}`, s.texts[what], version, id)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *schemaRegistry) set(change func(*schemaRegistry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *schemaRegistry) env() []string {
	return []string{
		"CDC_OUTBOX_ROUTER_REGISTRY_URL=" + s.URL, "CDC_OUTBOX_ROUTER_REGISTRY_VERSION_COLUMN=schema_version",
		"CDC_OUTBOX_ROUTER_REGISTRY_USERNAME=relay", "CDC_OUTBOX_ROUTER_REGISTRY_PASSWORD=" + canary,
		"CDC_OUTBOX_ROUTER_REGISTRY_FORMAT=protobuf", "CDC_OUTBOX_ROUTER_REGISTRY_MESSAGE_INDEXES=1,0",
		"CDC_OUTBOX_HTTP_STALL=1s",
	}
}

// insertVersion inserts an event whose payload is encoded with a version of its schema.
func (b *bed) insertVersion(key string, version int) {
	b.Helper()
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, schema_version)
		VALUES ('orders', '%s', 'created', '{"v": %d}', %d)`, key, version, version))
}

// values are the values of a topic's records, in order.
func (b *bed) values(topic string, n int64) (all []string) {
	b.Helper()
	for _, r := range b.records(topic, n) {
		all = append(all, string(r.Value))
	}
	return all
}

const ofVersion = "\x00\x00\x00\x01%c\x04\x02\x00{\"v\": %d}"

// A row whose schema is known is published while the registry is away. Another one waits, where the operator sees it,
// and nothing after it is published; it is published when the schema is registered.
func TestSchemaRegistry(t *testing.T) {
	t.Parallel()
	s := newSchemaRegistry(t)
	s.ids["orders.events-value/versions/1"] = 257
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.db.Exec(t, "ALTER TABLE outbox ADD schema_version int")
	b.env = append(b.env, s.env()...)
	b.env = append(b.env, "CDC_OUTBOX_ROUTER_REGISTRY_CACHE="+filepath.Join(t.TempDir(), "schemas.json"))
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	b.insertVersion("1", 1)
	require.Equal(t, []string{fmt.Sprintf(ofVersion, 1, 1)}, b.values("orders.events", 1))
	p := invoke(t, b.env, "preview")
	require.Equal(t, 0, p.code, p.all())
	require.Contains(t, p.stdout, "schema id   257")
	c := invoke(t, b.env, "check")
	require.Contains(t, c.stdout, "orders.events-value, version 1: id 257.", c.all())

	s.set(func(s *schemaRegistry) { s.away = true })
	b.insertVersion("1", 1)
	b.values("orders.events", 2)
	b.insertVersion("1", 2)
	b.insertVersion("1", 1)
	r.awaitAnswer("/readyz", `rows wait for the id of subject "orders.events-value", version 2: it answers 503`)
	r.awaitAnswer("/status", `"registry_unreachable"`)
	st := invoke(t, b.env, "status", "--http-listen="+strings.TrimPrefix(r.url, "http://"))
	require.Contains(t, st.all(), "version 2: it answers 503 Service Unavailable", "why the slot waits")
	require.Contains(t, st.all(), "Look at the registry")
	p = invoke(t, b.env, "preview", "--last", "2")
	require.Equal(t, 1, p.code, p.all())
	require.Contains(t, p.stderr, "it answers 503 Service Unavailable")
	f := invoke(t, b.env, "find", "--key", "1")
	require.Contains(t, f.all(), "it answers 503 Service Unavailable", f.all())
	c = invoke(t, b.env, "check")
	require.Equal(t, 3, c.code, c.all())
	require.Contains(t, c.stdout, "run waits at a row whose schema it does not know", c.all())
	require.Len(t, b.values("orders.events", 2), 2)

	s.set(func(s *schemaRegistry) { s.away = false })
	r.awaitAnswer("/status", `"unknown_schema"`)
	r.awaitAnswer("/readyz", "halted at event")
	r.awaitAnswer("/readyz", `version 2 of subject`)
	p = invoke(t, b.env, "preview", "--last", "2")
	require.Equal(t, 3, p.code, p.all())
	require.Contains(t, p.stdout, "unknown_schema")
	require.Len(t, b.values("orders.events", 2), 2)

	s.set(func(s *schemaRegistry) { s.ids["orders.events-value/versions/2"] = 258 })
	require.Equal(t, []string{fmt.Sprintf(ofVersion, 2, 2), fmt.Sprintf(ofVersion, 1, 1)},
		b.values("orders.events", 4)[2:])
	r.awaitReady(http.StatusOK)
	require.Equal(t, 0, r.stop(syscall.SIGTERM), r.text())
	require.NotContains(t, r.text(), canary)
	require.Equal(t, 1, strings.Count(r.text(), "halted at an outbox row"), "said once")
	require.Contains(t, r.text(), "the event has a schema now; continuing")

	s.set(func(s *schemaRegistry) { s.away = true })
	r = start(t, b.env)
	b.insertVersion("1", 2)
	b.insertVersion("1", 1)
	require.Equal(t, []string{fmt.Sprintf(ofVersion, 2, 2), fmt.Sprintf(ofVersion, 1, 1)},
		b.values("orders.events", 6)[4:], "a restart while the registry is away")
	require.Equal(t, 0, r.stop(syscall.SIGTERM), r.text())
}

// A relay that polls waits in the lanes of such rows only, and treats a schema that the registry does not have by its
// policy.
func TestPollingWithSchemaRegistry(t *testing.T) {
	t.Parallel()
	s := newSchemaRegistry(t)
	s.ids["orders.events-value/versions/1"] = 257
	b := newPollingBed(t, "orders.events", "cdc-outbox.dead-letter")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.db.Exec(t, "ALTER TABLE outbox ADD schema_version int")
	b.env = append(b.env, append(s.env(), "CDC_OUTBOX_ROUTER_BAD_ROWS_UNKNOWN_SCHEMA=dead_letter")...)
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	b.insertVersion("1", 1)
	b.values("orders.events", 1)
	s.set(func(s *schemaRegistry) { s.away = true })
	b.insertVersion("1", 2)
	r.awaitAnswer("/status", `"registry_unreachable"`)
	for key := range 20 {
		b.insertVersion(fmt.Sprint("other", key), 1)
	}
	b.insertVersion("1", 1)
	require.Len(t, b.values("orders.events", 21), 21, "the other keys")
	r.awaitAnswer("/readyz", "it answers 503")
	s.set(func(s *schemaRegistry) { s.away = false })
	require.Len(t, b.values("cdc-outbox.dead-letter", 1), 1)
	b.values("orders.events", 22)

	retry := invoke(t, b.env, "dead-letter", "retry", "--all")
	require.Equal(t, 3, retry.code, retry.all())
	require.Contains(t, retry.all(), `has no version 2 of subject "orders.events-value"`)
	s.set(func(s *schemaRegistry) { s.ids["orders.events-value/versions/2"] = 258 })
	retry = invoke(t, b.env, "dead-letter", "retry", "--all")
	require.Equal(t, 0, retry.code, retry.all())
	require.Equal(t, fmt.Sprintf(ofVersion, 2, 2), b.values("orders.events", 23)[22])
	require.Equal(t, 0, r.stop(syscall.SIGTERM), r.text())
}
