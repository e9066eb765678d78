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

	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestAStopIsOverWithTheNextStart: what a process said last it cannot take back itself.
//
// Bug (monitor): Every restart in a crash loop sent `connector_stopped` again, and every healthy start sent that it was
// over. Cost: a storm of pages, and news about nothing.
//
// Bug (monitor): With `source: polling`, the next process did not resolve `connector_stopped`, and Alertmanager forgot
// it after four minutes. Cost: an incident that stays open, or a stop that is no longer visible.
//
// Bug (monitor): With `source: polling` each healthy start sent `connector_stopped` as resolved, and nothing kept why
// the relay had ended. Cost: an alert that ends while its cause lasts; a reason that only the log has.
func TestAStopIsOverWithTheNextStart(t *testing.T) {
	t.Parallel()
	t.Run("wal", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, testkit.Postgres(t), "orders.events")
		aStopIsOver(b, b.db.Slot, "ALTER PUBLICATION "+b.db.Publication+" DROP TABLE outbox",
			"ALTER PUBLICATION "+b.db.Publication+" ADD TABLE outbox")
	})
	t.Run("polling", func(t *testing.T) {
		t.Parallel()
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
	var first []string // with source: polling it is known that nothing was said
	if slot != "" {
		first = []string{"resolved"} // without a row nothing is known of what was before
	}
	await := func(want ...string) {
		t.Helper()
		want = append(slices.Clone(first), want...)
		for i := range want {
			want[i] += " " + slot
		}
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(want, told)
		}, time.Minute, 20*time.Millisecond)
	}
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	r := start(t, b.env, "--monitor-webhook="+hook.URL)
	r.awaitReady(http.StatusOK)
	time.Sleep(4 * time.Second) //waits:ok nothing shows that it has taken nothing back, which takes three seconds
	await()
	b.db.Exec(t, spoil)
	<-r.done
	await("firing")
	for range 2 { // a crash loop is one alert
		require.Equal(t, 3, invoke(t, b.env, "run", "--http-listen=off", "--monitor-webhook="+hook.URL).code)
	}
	loop := []string{"firing"}
	if slot == "" {
		loop = append(loop, "firing") // the check at the start has other words for the cause
	}
	await(loop...)
	why := invoke(t, b.env, "status", "--why").stdout
	require.Contains(t, why, "stopped: The connector (pid ")
	require.Contains(t, why, "with exit code 3")
	b.db.Exec(t, mend)
	r = start(t, b.env, "--monitor-webhook="+hook.URL)
	await(append(loop, "resolved")...)
	r.awaitText("the previous run ended on an error")
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	await(append(loop, "resolved")...)
	require.NotContains(t, invoke(t, b.env, "status", "--why").stdout, "exit code")
	r = start(t, b.env, "--monitor-webhook="+hook.URL) // a healthy start says nothing
	r.awaitReady(http.StatusOK)
	time.Sleep(4 * time.Second) //waits:ok as above
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	await(append(loop, "resolved")...)
}

// TestAnInstanceThatWorksTakesBackWhatAnotherSaid: an instance that waited for the slot ended on an error; the working
// one is stopped as asked later. Then no reason is left.
//
// Bug (monitor): A waiting instance that failed wrote its last word over the row; a working one that was stopped as
// asked left it there. Cost: `status` that gives a reason that is over.
func TestAnInstanceThatWorksTakesBackWhatAnotherSaid(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	b.db.Exec(t, insertOneOrder)
	b.records("orders.events", 1)
	awaitSQL(b, "SELECT count(*) = 1 FROM cdc_outbox_slots")
	time.Sleep(2 * time.Second) //waits:ok it looks twice a second whether it works, and shows it nowhere
	require.Equal(t, 3, invoke(t, b.env, "run", "--http-listen=off", "--postgres-tables=public.mislaid",
		"--postgres-setup=never").code)
	awaitSQL(b, "SELECT last_word IS NOT NULL AND NOT last_word ? 'over' FROM cdc_outbox_slots")
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	awaitSQL(b, "SELECT last_word ? 'over' FROM cdc_outbox_slots")
}
