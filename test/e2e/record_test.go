//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/collector"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// TestRecordScrapes records what a running connector and a running consumer show to Prometheus, as the dashboard's test
// reads it (deploy/testdata/rules): `make scrapes`. Things happen meanwhile that most panels are about: load, a row
// that is dead-lettered, a connection that breaks, an open transaction that holds the slot back, a consumer that hangs.
func TestRecordScrapes(t *testing.T) {
	dir := os.Getenv("CDC_OUTBOX_TEST_SCRAPES")
	if dir == "" {
		t.Skip("CDC_OUTBOX_TEST_SCRAPES names no directory")
	}
	db := testkit.DedicatedPostgres(t, smallWAL("256MB"))
	r, kind, topic := plainRig(t, db)
	for _, name := range []string{topic + ".DLT", "cdc-outbox.dead-letter"} {
		require.NoError(t, r.kafka.Create(r.within(patience), kafkaclient.Topic{Name: name}))
	}
	ledger, err := inbox.Schema(inbox.Options{})
	require.NoError(t, err)
	db.Exec(t, ledger)
	_, broker := sharedKafka(t)
	h, spans := startHook(t), collector.HTTP(t)
	p := r.start(map[string]string{
		"CDC_OUTBOX_DELIVERY": "exactly_once", "CDC_OUTBOX_ROUTER_ON_BAD_ROW": "dead_letter",
		"CDC_OUTBOX_MONITOR_INTERVAL": "250ms", "CDC_OUTBOX_MONITOR_WAL_VOLUME": "1GiB",
		"CDC_OUTBOX_MONITOR_WARN_RETAINED": "16MiB", "CDC_OUTBOX_MONITOR_WEBHOOK": h.URL,
		"CDC_OUTBOX_TRACES_ENDPOINT": spans.URL, "CDC_OUTBOX_TRACES_SAMPLE": "5%",
	})
	pool, err := pgxpool.New(t.Context(), db.DSN)
	require.NoError(t, err)
	defer pool.Close()
	registry := prometheus.NewRegistry()
	m := inbox.NewMetrics(registry)
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing", Metrics: m})
	require.NoError(t, err)
	_, err = in.Prune(t.Context(), 0)
	require.NoError(t, err)
	var hangs atomic.Bool
	c, err := consumer.New(consumer.Options{
		Brokers: r.kafka.Addrs(), Group: "billing", Topics: []string{topic}, Metrics: m,
	}, consumer.InTx(in, func(ctx context.Context, _ pgx.Tx, _ consumer.Message) error {
		if hangs.Load() {
			<-ctx.Done()
		}
		return ctx.Err()
	}))
	require.NoError(t, err)
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(running) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()

	open, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	_, err = open.Exec(t.Context(), `BEGIN; INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('`+
		kind+`', '1', 'open')`)
	require.NoError(t, err)
	filler, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	const scrapes, every = 8, 5 * time.Second
	for i := range scrapes {
		began := time.Now()
		r.insert(kind, 500)
		writeWAL(t, filler, 5<<20)
		switch i {
		case 2:
			broker.CutAfter(proxy.Up, 20_000) // in the middle of a request
		case 3:
			db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, headers) VALUES ('`+kind+
				`', '1', 'bad', '[1]')`)
		case 4:
			hangs.Store(true)
		case 5:
			db.Exec(t, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '`+db.Slot+
				`'`)
		}
		time.Sleep(every - time.Since(began)) //waits:ok a scrape interval of the recording
		code, body, err := p.Get("/metrics")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
		save(t, dir, fmt.Sprintf("connector-%d.prom", i), body)
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		save(t, dir, fmt.Sprintf("consumer-%d.prom", i), w.Body.String())
	}
	require.NotEmpty(t, spans.Spans())
	require.NoError(t, open.Close(t.Context()))
}

// save keeps our own metrics; no panel shows the metrics of Go and of the process.
func save(t *testing.T, dir, name, text string) {
	t.Helper()
	var ours strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "cdc_outbox_") {
			ours.WriteString(line)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(ours.String()), 0o644))
}
