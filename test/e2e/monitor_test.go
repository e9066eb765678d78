//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// hook receives what monitor.webhook posts.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []map[string]any
}

func startHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body map[string]any
		b, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(b, &body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.bodies = append(h.bodies, body)
	}))
	t.Cleanup(h.Close)
	return h
}

// got lists "state level" of what came for an alert.
func (h *hook) got(alert string) (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := map[any]bool{}
	for _, b := range h.bodies {
		// what is in transit at the process's end is sent once more, with its id
		if b["alert"] == alert && !told[b["id"]] {
			told[b["id"]] = true
			list = append(list, fmt.Sprint(b["state"], " ", b["level"]))
		}
	}
	return list
}

// logged lists "message level" of the log's lines about an alert.
func logged(p *process.Process, alert string) (list []string) {
	for line := range strings.Lines(p.Log()) {
		var entry struct {
			Msg, Alert string
			Level      string `json:"alert_level"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Alert == alert &&
			strings.HasPrefix(entry.Msg, "alert ") {
			list = append(list, entry.Msg+", "+entry.Level)
		}
	}
	return list
}

func fires(t *testing.T, p *process.Process, alert string) float64 {
	sum := 0.0
	for _, level := range []string{"warn", "critical"} {
		v, err := p.Metric(`cdc_outbox_alert_firing{alert="` + alert + `",level="` + level + `"}`)
		require.NoError(t, err)
		sum += v
	}
	return sum
}

// smallWAL are settings under which megabytes matter.
func smallWAL(keep string) postgres.Options {
	return postgres.Options{
		WALSegment: 1, Settings: map[string]string{
			"min_wal_size": "2MB", "max_wal_size": "4MB", "max_slot_wal_keep_size": keep,
		},
	}
}

func writeWAL(t *testing.T, c *pgx.Conn, bytes int) {
	_, err := c.Exec(t.Context(), `SELECT pg_logical_emit_message(false, 'filler', repeat('x', $1))`, bytes)
	require.NoError(t, err)
}

// A broker that swallows everything: warned, then critical, and resolved when it is back, each reported once in the
// log, as a metric and at the webhook.
func TestMonitorSendsEachAlertOnce(t *testing.T) {
	_, broker := sharedKafka(t)
	t.Cleanup(func() { broker.Stall(false) })
	db := testkit.DedicatedPostgres(t, smallWAL("-1"))
	h := startHook(t)
	r, kind, topic := plainRig(t, db)
	p := r.start(map[string]string{
		"CDC_OUTBOX_MONITOR_INTERVAL": "250ms", "CDC_OUTBOX_MONITOR_WARN_RETAINED": "8MiB",
		"CDC_OUTBOX_MONITOR_CRITICAL_RETAINED": "16MiB", "CDC_OUTBOX_MONITOR_WEBHOOK": h.URL,
	})
	filler, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	const alert = "slot_retained_wal"
	await := func(what string, posted ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return len(h.got(alert)) >= len(posted)
		}, patience, 20*time.Millisecond, what)
		require.Equal(t, posted, h.got(alert), what)
	}
	r.insert(kind, 1) // so that the producer has met the broker
	require.NoError(t, r.kafka.Await(r.within(patience), 1, topic))
	broker.Stall(true)
	r.insert(kind, 3)
	awaitCause(t, p, "unacknowledged")
	writeWAL(t, filler, 11<<20)
	await("beyond the warning threshold", "firing warn")
	require.Equal(t, 1.0, fires(t, p, alert))
	writeWAL(t, filler, 11<<20)
	await("beyond the critical threshold", "firing warn", "firing critical")
	broker.Stall(false)
	require.NoError(t, r.kafka.Await(r.within(patience), 4, topic))
	require.Eventually(t, func() bool { // restart_lsn moves with the running-xacts record of a checkpoint
		db.Exec(t, "CHECKPOINT")
		return len(h.got(alert)) > 2
	}, patience, 200*time.Millisecond)
	await("all is well again", "firing warn", "firing critical", "resolved critical")
	require.Zero(t, fires(t, p, alert))
	time.Sleep(2 * time.Second) //waits:ok eight looks of the monitor, which say nothing more
	require.Len(t, h.got(alert), 3)
	require.Equal(t, []string{"alert fires, warn", "alert fires, critical", "alert is resolved, critical"},
		logged(p, alert))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.bodies {
		if b["alert"] == alert && b["state"] == "firing" {
			require.Contains(t, []any{"broker_unreachable", "unacknowledged"}, b["cause"].(map[string]any)["code"],
				"why: %v", b["cause"])
			require.Greater(t, b["figures"].(map[string]any)["retained_wal_bytes"], 8e6)
		}
	}
	require.NotContains(t, p.Log(), h.URL)
}

// Under a steady load the forecast is the time at which the server really invalidates the slot. There is none before
// half a minute has been seen, and then some time has to be left.
func TestMonitorForecast(t *testing.T) {
	t.Parallel()
	const rate, limit = 1.6 * (1 << 20), 96
	db := testkit.DedicatedPostgres(t, smallWAL(fmt.Sprint(limit, "MB")))
	emptyTable(t, db)
	h := startHook(t)
	_, broker := sharedKafka(t)
	nowhere, err := proxy.Start(broker.Addr(), proxy.Kafka)
	require.NoError(t, err)
	t.Cleanup(nowhere.Close)
	r := &rig{T: t, db: db, began: time.Now(), env: map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": nowhere.Addr(),
		"CDC_OUTBOX_MONITOR_INTERVAL": "250ms", "CDC_OUTBOX_MONITOR_WEBHOOK": h.URL, "CDC_OUTBOX_HTTP_STALL": "1h",
	}}
	p := r.start()
	nowhere.Stall(true)
	r.insert("x", 1)
	c, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	began, written := time.Now(), 0
	var forecast, seen float64
	for {
		due := int(time.Since(began).Seconds()*rate) - written
		if due > 0 {
			writeWAL(t, c, due)
			written += due
		}
		if v, err := p.Metric(`cdc_outbox_slot_seconds_to_limit{slot="` + db.Slot + `"}`); forecast == 0 &&
			err == nil && v > 0 && !math.IsInf(v, 1) {
			forecast, seen = v, time.Since(began).Seconds()
			t.Logf("after %.1f s: %.1f s left", seen, forecast)
		}
		var status string
		require.NoError(t, c.QueryRow(t.Context(), `SELECT wal_status FROM pg_replication_slots WHERE slot_name = $1`,
			db.Slot).Scan(&status))
		if status == "lost" {
			break
		}
		require.Less(t, time.Since(began), 3*time.Minute, "the slot is %s", status)
		time.Sleep(50 * time.Millisecond) //waits:ok the pace of the load
	}
	left := time.Since(began).Seconds() - seen
	t.Logf("lost after %.1f s", time.Since(began).Seconds())
	require.NotZero(t, forecast, "there was a forecast")
	require.InEpsilon(t, left, forecast, 0.3)
	require.Contains(t, h.got("slot_time_to_limit"), "firing critical")
	code, err := p.Wait(patience)
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Equal(t, []string{"resolved critical", "firing critical"}, h.got("connector_stopped"),
		"what an earlier process may have said is over; this one's end")
}
