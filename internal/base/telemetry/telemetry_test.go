package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// contract is what dashboards and alert rules hold on to, with the labels. The slot_* metrics are in slotmonitor.
var contract = []string{
	"alert_firing{alert,level}",
	"build_info{goversion,revision,version}",
	"commit_to_ack_seconds{}",
	"confirmed_lsn{}",
	"events_failed_total{reason,topic}",
	"events_published_total{topic}",
	"oldest_unconfirmed_seconds{}",
	"outbox_changes_total{operation}",
	"received_lsn{}",
	"reconnects_total{side}",
	"window_bytes{}",
	"window_records{}",
}

func newMetrics(reg *prometheus.Registry) *Metrics {
	m := NewMetrics(reg)
	m.Watch(Gauges{
		ConfirmedLSN:      func() uint64 { return 1 << 40 },
		ReceivedLSN:       func() uint64 { return 1<<40 + 1 },
		OldestUnconfirmed: func() time.Duration { return 1500 * time.Millisecond },
		Window:            func() (int, int64) { return 3, 4096 },
	})
	BuildInfo(reg, "v1", "abc", "go1")
	return m
}

func TestMetricNamesAreTheContract(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	WatchAlerts(reg, func() map[string]string { return map[string]string{"slot_lost": "critical"} })
	m.Published("orders.events", 1)
	m.Failed("orders.events", "missing_column")
	families, err := reg.Gather()
	require.NoError(t, err)
	var got []string
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), "cdc_outbox_")
		require.True(t, ok, f.GetName())
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		got = append(got, name+"{"+strings.Join(labels, ",")+"}")
		require.NotEmpty(t, f.GetHelp())
	}
	require.Equal(t, contract, got)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// Bug (monitor): `alert_firing` had no level. Cost: each warning paged as critical.
func TestMetricValues(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	m.Published("a", 2)
	m.Published("a", 3)
	m.Failed("", "no_topic")
	m.CommitToAck(-time.Second)
	m.Reconnected(Kafka)
	firing := map[string]string{"x": "warn", "y": "critical"}
	WatchAlerts(reg, func() map[string]string { return firing }, "never", "x")
	_, err := reg.Gather()
	require.NoError(t, err)
	firing = map[string]string{"y": "warn"}
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP cdc_outbox_alert_firing 1 while the alert fires at this level, 0 otherwise.
# TYPE cdc_outbox_alert_firing gauge
cdc_outbox_alert_firing{alert="never",level="critical"} 0
cdc_outbox_alert_firing{alert="never",level="warn"} 0
cdc_outbox_alert_firing{alert="x",level="critical"} 0
cdc_outbox_alert_firing{alert="x",level="warn"} 0
cdc_outbox_alert_firing{alert="y",level="critical"} 0
cdc_outbox_alert_firing{alert="y",level="warn"} 1
# HELP cdc_outbox_confirmed_lsn Position up to which everything was acknowledged by Kafka and confirmed to the slot, `+
		`in bytes of WAL.
# TYPE cdc_outbox_confirmed_lsn gauge
cdc_outbox_confirmed_lsn 1.099511627776e+12
# HELP cdc_outbox_events_published_total Events acknowledged by Kafka, by topic.
# TYPE cdc_outbox_events_published_total counter
cdc_outbox_events_published_total{topic="a"} 5
# HELP cdc_outbox_oldest_unconfirmed_seconds Age of the oldest committed transaction with events that is not `+
		`confirmed, 0 where there is none.
# TYPE cdc_outbox_oldest_unconfirmed_seconds gauge
cdc_outbox_oldest_unconfirmed_seconds 1.5
# HELP cdc_outbox_reconnects_total Connections made again after one was lost, by side.
# TYPE cdc_outbox_reconnects_total counter
cdc_outbox_reconnects_total{side="kafka"} 1
cdc_outbox_reconnects_total{side="postgres"} 0
`), "cdc_outbox_alert_firing", "cdc_outbox_confirmed_lsn", "cdc_outbox_events_published_total",
		"cdc_outbox_oldest_unconfirmed_seconds", "cdc_outbox_reconnects_total"))
}

func TestTopicLabelIsBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	for i := range 10_000 {
		m.Published(fmt.Sprintf("t%d", i), 1)
	}
	require.Equal(t, TopicCount{OtherTopic, 9000}, m.Topics(1)[0])
	m.Failed("yet-another", "x")
	require.Equal(t, MaxTopics+1, testutil.CollectAndCount(m.published))
	require.InDelta(t, 9000, testutil.ToFloat64(m.published.WithLabelValues(OtherTopic)), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.failed.WithLabelValues(OtherTopic, "x")), 0)
	m.Published("t0", 1)
	require.InDelta(t, 2, testutil.ToFloat64(m.published.WithLabelValues("t0")), 0)
}

func TestPublishedDoesNotAllocate(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	m.Published("a", 1)
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Published("a", 1) }))
}

func handlers(ok bool, why string) Handlers {
	reg := prometheus.NewRegistry()
	newMetrics(reg)
	return Handlers{
		Metrics: reg,
		Ready:   func() (bool, string) { return ok, why },
		Status:  func() any { return map[string]string{"state": "streaming"} },
		Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.NotFound(w, r)
			}
		}),
	}
}

func TestEndpoints(t *testing.T) {
	ready, waiting := NewHandler(handlers(true, "streaming")),
		NewHandler(handlers(false, "waiting for topic orders.events"))
	none := handlers(true, "streaming")
	none.Page = nil
	pageless := NewHandler(none)
	for _, tc := range []struct {
		method, path string
		h            http.Handler
		code         int
		contentType  string
		body         string
	}{
		{"GET", "/healthz", waiting, 200, "text/plain; charset=utf-8", "ok\n"},
		{"GET", "/readyz", ready, 200, "text/plain; charset=utf-8", "streaming\n"},
		{"GET", "/readyz", waiting, 503, "text/plain; charset=utf-8", "waiting for topic orders.events\n"},
		{"GET", "/status", ready, 200, "application/json", "{\n  \"state\": \"streaming\"\n}\n"},
		{"GET", "/metrics", ready, 200, "text/plain", "cdc_outbox_build_info{"},
		{"GET", "/", ready, 200, "", ""},
		{"GET", "/", pageless, 200, "text/plain", "/status"},
		{"GET", "/nothing", pageless, 404, "text/plain", "404"},
		{"GET", "/nothing", ready, 404, "text/plain; charset=utf-8", "404"},
		{"POST", "/status", ready, 405, "text/plain; charset=utf-8", "Method"},
		{"HEAD", "/healthz", ready, 200, "text/plain; charset=utf-8", ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			tc.h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
			require.Equal(t, tc.code, w.Code)
			require.True(t, strings.HasPrefix(w.Header().Get("Content-Type"), tc.contentType), w.Header())
			require.Contains(t, w.Body.String(), tc.body)
			for _, head := range []string{
				"Cache-Control", "Content-Security-Policy", "X-Content-Type-Options",
				"X-Frame-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy",
			} {
				require.NotEmpty(t, w.Header().Get(head), head)
			}
		})
	}
}

func TestServerStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Listen(ctx, "127.0.0.1:0", handlers(true, "streaming"))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Get("http://" + s.Addr() + "/healthz")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())

	_, err = Listen(ctx, s.Addr(), handlers(true, ""))
	require.Equal(t, fault.Config, fault.KindOf(err))
	require.ErrorContains(t, err, "address already in use")
	require.ErrorContains(t, err, "http.listen")

	cancel()
	require.NoError(t, <-done)
	client.CloseIdleConnections()
	_, err = net.DialTimeout("tcp", s.Addr(), time.Second)
	require.Error(t, err)
}

func TestLogger(t *testing.T) {
	var b bytes.Buffer
	log, err := NewLogger(&b, "warn", FormatJSON)
	require.NoError(t, err)
	log.Info("not shown")
	cause := &fault.Error{
		Kind: fault.Operator, Object: `slot "s"`, At: "0/1", Err: errors.New("gone"),
		Next: "Run setup.", Commands: []string{"cdc-outbox setup"},
	}
	log.Warn("stopped", append(ErrorFields(cause), zap.Duration("backoff", 1500*time.Millisecond))...)
	var line map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &line), b.String())
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, line["ts"])
	delete(line, "ts")
	require.Equal(t, map[string]any{
		"level": "warn", "msg": "stopped", "fault": "operator", "object": `slot "s"`, "at": "0/1", "error": "gone",
		"next": "Run setup.", "commands": []any{"cdc-outbox setup"}, "backoff": "1.5s",
	}, line)

	b.Reset()
	log, err = NewLogger(&b, "debug", FormatConsole)
	require.NoError(t, err)
	log.Debug("hello")
	require.Contains(t, b.String(), "\tdebug\thello\n")

	_, err = NewLogger(&b, "loud", FormatJSON)
	require.Error(t, err)
	_, err = NewLogger(&b, "info", "xml")
	require.Error(t, err)
	require.Len(t, ErrorFields(errors.New("x")), 2)
	require.Nil(t, ErrorFields(nil))
}

func TestTopicsAndLatenciesAreThoseOfTheMetrics(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	require.Equal(t, []TopicCount{}, m.Topics(3))
	m.Published("b", 2)
	m.Published("a", 2)
	m.Published("c", 7)
	m.Failed("only.failed", "x")
	require.Equal(t, []TopicCount{{"c", 7}, {"a", 2}, {"b", 2}}, m.Topics(20))
	require.Equal(t, []TopicCount{{"c", 7}}, m.Topics(1))

	m.CommitToAck(2 * time.Millisecond)
	m.CommitToAck(time.Hour)
	bounds, counts, seconds := m.Latencies()
	require.InDelta(t, 3600.002, seconds, 1e-6)
	require.Len(t, counts, len(bounds)+1)
	require.InDeltaSlice(t, []float64{.0005, .001, .0025}, bounds[:3], 0)
	require.Equal(t, []uint64{0, 0, 1}, counts[:3])
	require.Equal(t, []uint64{1, 2}, counts[len(counts)-2:])
}
