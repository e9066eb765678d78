package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// From the row to the endpoint: relay, forward, and the audit of both.
//
// Bug (monitor): `forward` logged in to the ledger of `postgres.dsn` without `postgres.password_command` or
// `password_file`. Cost: a login that fails where the relay works.
func TestForwardCommand(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events", "orders.events.DLT")
	var mu sync.Mutex
	var bodies []string
	var first http.Header
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if bodies = append(bodies, string(body)); first == nil {
			first = r.Header
			http.Error(w, canary, http.StatusInternalServerError)
		}
	}))
	defer endpoint.Close()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("Bearer one"), 0o600))
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	relay := start(t, b.env)
	relay.awaitReady(http.StatusOK)
	b.db.Exec(t, insertOrder)

	args := []string{
		"forward", `--pattern=orders\..*`, "--group=billing", "--to=" + endpoint.URL + "/hook?key=" + canary,
		"--header=Authorization: @" + token,
	}
	missing := invoke(t, b.env, args...)
	require.Equal(t, 3, missing.code, missing.all())
	require.Contains(t, missing.stderr, "--create-ledger")

	// The ledger of postgres.dsn takes its password where the relay does.
	asked := filepath.Join(t.TempDir(), "asked")
	env := append(b.env, "CDC_OUTBOX_POSTGRES_PASSWORD_COMMAND=sh,-c,touch "+asked+"; echo any")
	f := startCommand(t, env, append(args, "--create-ledger", "--http-listen=127.0.0.1:0")...)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(bodies) == 2
	}, time.Minute, 20*time.Millisecond, f.text())
	require.FileExists(t, asked)
	require.Equal(t, `{"secret": "`+canary+`"}`, bodies[1])
	require.Equal(t, "Bearer one", first.Get("Authorization"))
	require.Equal(t, "created", first.Get("Event-Type"))
	require.Equal(t, "o-1", first.Get("Event-Key"))
	f.awaitReady(http.StatusOK)
	for _, want := range []string{ // the endpoint has the second call before its answer is here
		`cdc_outbox_forward_call_seconds_count{result="again"} 1`,
		`cdc_outbox_forward_call_seconds_count{result="done"} 1`, `cdc_outbox_consumer_lag{group="billing"`,
	} {
		f.awaitAnswer("/metrics", want)
	}
	awaitSQL(b, "SELECT count(*) = 1 FROM processed_events WHERE status = 'COMPLETED'")
	_, status := f.get("/status")
	require.Contains(t, status, `"group": "billing"`)
	res := invoke(t, b.env, "audit", "--consumer=billing", "--since=1h", "--grace=0s")
	require.Equal(t, 0, res.code, res.all())
	require.Equal(t, 0, f.stop(syscall.SIGTERM))
	require.NotContains(t, f.text(), canary, "the log has neither payload, answer nor query")
	require.Contains(t, f.text(), "the answer is 500 Internal Server Error")

	for name, bad := range map[string][]string{
		"no topic": {"forward", "--group=g", "--to=http://127.0.0.1"},
		"no URL":   {"forward", "--group=g", "--topic=t", "--to=x"},
	} {
		require.Equal(t, 2, invoke(t, b.env, bad...).code, name)
	}
}
