package traces

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/collector"
)

// The log of a test, for what must be in it and what must not.
var logs sync.Map // *testing.T -> *observer.ObservedLogs

func logger(t *testing.T) *zap.Logger {
	core, seen := observer.New(zapcore.DebugLevel)
	logs.Store(t, seen)
	return zap.New(core)
}

func logged(t *testing.T) *observer.ObservedLogs {
	seen, _ := logs.Load(t)
	return seen.(*observer.ObservedLogs)
}

// run runs the recorder and returns what ends it.
func run(t *testing.T, r *Recorder) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				t.Error("Run does not end")
			}
		})
	}
	t.Cleanup(end)
	return end
}

func ended(r *Recorder, traceparent string) *Span {
	s := r.Sample([]byte(traceparent), nil)
	read := time.Now()
	s.EventID, s.Topic, s.Partition, s.Offset, s.Transaction = "e-1", "order.events", 3, 42, 771
	s.Commit, s.Position = "0/16B374D8", "0000000016b374d8-00000000"
	s.Committed, s.Read, s.Acked = read.Add(-time.Second), read, read.Add(500*time.Millisecond)
	r.End(s)
	return s
}

func TestSpansReachARealReceiver(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	for name, c := range map[string]struct {
		start func(testing.TB) *collector.Collector
		grpc  bool
		path  string
	}{"http": {collector.HTTP, false, "/v1/traces"}, "grpc": {collector.GRPC, true, ""}} {
		t.Run(name, func(t *testing.T) {
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			to := c.start(t)
			r := recorder(t, Settings{
				URL: to.URL + c.path, GRPC: c.grpc, Headers: map[string]string{"authorization": "Bearer s3cret"},
			})
			end := run(t, r)
			s := ended(r, "00-"+aTrace+"-"+aSpan+"-01")
			got := to.Await(t, 1)[0]
			end()
			require.Equal(t, "send order.events", got.Name)
			require.Equal(t, "PRODUCER", got.Kind)
			require.Equal(t, aTrace, got.TraceID)
			require.Equal(t, aSpan, got.Parent)
			require.Equal(t, s.SpanID(), got.SpanID)
			require.WithinDuration(t, s.Read, got.Start, time.Microsecond)
			require.WithinDuration(t, s.Acked, got.End, time.Microsecond)
			require.Equal(t, "Bearer s3cret", got.Authorization)
			commit := s.Committed.UTC().Format(time.RFC3339Nano)
			require.Equal(t, map[string]any{
				"messaging.system": "kafka", "messaging.operation.type": "send", "messaging.operation.name": "send",
				"messaging.destination.name": "order.events", "messaging.destination.partition.id": "3",
				"messaging.kafka.offset": int64(42), "messaging.message.id": "e-1", "cdc_outbox.slot": "cdc_outbox",
				"cdc_outbox.commit_lsn": "0/16B374D8", "cdc_outbox.position": "0000000016b374d8-00000000",
				"cdc_outbox.commit_time": commit, "cdc_outbox.commit_to_ack_seconds": 1.5,
				"cdc_outbox.transaction": int64(771),
			}, got.Attributes)
			require.Equal(t, "cdc-outbox", got.Resource["service.name"])
			require.Equal(t, "1.2", got.Resource["service.version"])
			require.Equal(t, "test", got.Resource["deployment.environment.name"])
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		})
	}
}

func TestWhatIsLeftGoesOutAtTheEnd(t *testing.T) {
	to := collector.HTTP(t)
	r := recorder(t, Settings{URL: to.URL + "/v1/traces", Delay: time.Hour})
	for range 10 {
		ended(r, "00-"+aTrace+"-"+aSpan+"-01")
	}
	run(t, r)()
	require.Len(t, to.Spans(), 10)
}

// A collector that hangs, refuses or is not there: the way of the events never waits for it.
func TestACollectorThatIsAwayCostsSpansOnly(t *testing.T) {
	// accepts, through the backlog, and says nothing
	hangs, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hangs.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600000") // only the end of the process ends an export
	for name, url := range map[string]string{
		"hangs": "http://" + hangs.Addr().String(), "is not there": "http://127.0.0.1:1",
	} {
		for _, grpc := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, grpc %v", name, grpc), func(t *testing.T) {
				reg := prometheus.NewRegistry()
				r, err := New(Config{
					Settings:   Settings{URL: url, GRPC: grpc, Sample: 1, Queue: 8, Batch: 4, Delay: time.Millisecond},
					Registerer: reg, Logger: logger(t),
				})
				require.NoError(t, err)
				r.grace = 100 * time.Millisecond
				end := run(t, r)
				for range 10_000 {
					r.End(r.Sample(nil, nil)) // with room for eight, it does not wait for the collector
				}
				end()
				counts := results(t, reg)
				require.Equal(t, 10_000.0, counts["dropped"]+counts["failed"], "all are accounted for: %v", counts)
				require.Positive(t, counts["dropped"])
				require.Zero(t, counts["exported"])
			})
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestARefusalIsSaidOnceWithoutSecrets(t *testing.T) {
	to := collector.HTTP(t)
	to.Refuse(http.StatusUnauthorized) // and it says whom it refuses
	r := recorder(t, Settings{URL: to.URL + "/v1/traces", Headers: map[string]string{"authorization": "Bearer s3cret"}})
	run(t, r)
	for i := range 3 {
		ended(r, "00-"+aTrace+"-"+aSpan+"-01")
		require.Eventually(t, func() bool { return value(t, r.metrics.failed) == float64(i+1) }, 30*time.Second,
			time.Millisecond)
	}
	to.Refuse(0)
	ended(r, "00-"+aTrace+"-"+aSpan+"-01")
	to.Await(t, 1)
	require.Eventually(t, func() bool {
		return len(logged(t).FilterMessage("traces reach the collector again").All()) == 1
	}, 30*time.Second, time.Millisecond)
	said := logged(t).FilterMessageSnippet("do not reach").All()
	require.Len(t, said, 1)
	fields := fmt.Sprint(said[0].ContextMap())
	require.Contains(t, fields, "401")
	require.Contains(t, fields, "***")
	for _, e := range logged(t).All() {
		require.NotContains(t, fmt.Sprint(e.Message, e.ContextMap()), "s3cret")
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A collector may repeat the token alone.
func TestMasked(t *testing.T) {
	s := Settings{Headers: map[string]string{"authorization": "Bearer s3cret", "empty": "", "x": "key "}}
	for text, want := range map[string]string{
		"got Bearer s3cret": "got ***", `token "s3cret" has ended`: `token "***" has ended`, "plain": "plain",
	} {
		require.Equal(t, want, s.masked(errors.New(text)))
	}
}

// hangingExporter waits for its context.
type hangingExporter struct{ began chan struct{} }

func (h *hangingExporter) ExportSpans(ctx context.Context, _ []sdk.ReadOnlySpan) error {
	close(h.began)
	<-ctx.Done()
	return errors.New("cut off")
}
func (h *hangingExporter) Shutdown(context.Context) error { return nil }

func TestAnExportUnderWayGetsTwoSecondsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t, Settings{URL: "http://127.0.0.1:1"})
		h := &hangingExporter{began: make(chan struct{})}
		r.out = h
		end := run(t, r)
		ended(r, "00-"+aTrace+"-"+aSpan+"-01")
		<-h.began
		began := time.Now()
		end()
		require.Equal(t, lastExport, time.Since(began))
	})
}

func results(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		require.Equal(t, "cdc_outbox_trace_spans_total", f.GetName())
		for _, m := range f.Metric {
			out[m.Label[0].GetValue()] = m.Counter.GetValue()
		}
	}
	return out
}
