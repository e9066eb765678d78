package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/diagnose"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestAStopIsOverWithTheNextStart: what a process said last it cannot take back itself.
func TestAStopIsOverWithTheNextStart(t *testing.T) {
	t.Run("wal", func(t *testing.T) {
		b := newBed(t, testkit.Postgres(t), "orders.events")
		aStopIsOver(b, b.db.Slot, "ALTER PUBLICATION "+b.db.Publication+" DROP TABLE outbox",
			"ALTER PUBLICATION "+b.db.Publication+" ADD TABLE outbox")
	})
	t.Run("polling", func(t *testing.T) {
		aStopIsOver(newPollingBed(t, "orders.events"), "", "ALTER TABLE outbox RENAME published_at TO mislaid",
			"ALTER TABLE outbox RENAME mislaid TO published_at")
	})
}

func aStopIsOver(b *bed, slot, spoil, mend string) {
	b.Helper()
	t := b.T
	var mu sync.Mutex
	var told []string
	seen := map[string]bool{}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct{ ID, Alert, State, Slot string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		mu.Lock()
		defer mu.Unlock()
		if body.Alert == diagnose.ConnectorStopped && !seen[body.ID] { // what is in flight at the end is sent again
			told = append(told, body.State+" "+body.Slot)
		}
		seen[body.ID] = true
	}))
	defer hook.Close()
	await := func(want ...string) {
		t.Helper()
		for i := range want {
			want[i] += " " + slot
		}
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(want, told)
		}, 10*time.Second, 20*time.Millisecond, "%v", want)
	}
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	r := start(t, b.env, "--monitor-webhook="+hook.URL)
	r.awaitReady(http.StatusOK)
	await("resolved") // without a row nothing is known of what was before
	b.db.Exec(t, spoil)
	<-r.done
	await("resolved", "firing")
	if slot != "" { // a crash loop is one alert
		for range 2 {
			require.Equal(t, 3, invoke(t, b.env, "run", "--http-listen=off", "--monitor-webhook="+hook.URL).code)
		}
		await("resolved", "firing")
	}
	b.db.Exec(t, mend)
	r = start(t, b.env, "--monitor-webhook="+hook.URL)
	await("resolved", "firing", "resolved")
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	await("resolved", "firing", "resolved")
	if slot != "" { // a healthy start says nothing
		r = start(t, b.env, "--monitor-webhook="+hook.URL)
		r.awaitReady(http.StatusOK)
		time.Sleep(4 * time.Second) // longer than it takes to take something back
		require.Equal(t, 0, r.stop(syscall.SIGTERM))
		await("resolved", "firing", "resolved")
	}
}
