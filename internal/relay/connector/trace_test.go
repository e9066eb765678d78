package connector

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/collector"
)

const aTrace, aSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

var withHeaders = &pgoutput.Relation{OID: 2, Namespace: "public", Name: "outbox", Columns: []pgoutput.Column{
	{Name: "id"},
	{Name: "aggregate_type"},
	{Name: "aggregate_id"},
	{Name: "event_type"},
	{Name: "payload"},
	{Name: "headers"},
}}

func rowWithHeaders(id, headers string) *pgoutput.Message {
	text := func(s string) pgoutput.Value { return pgoutput.Value{Kind: pgoutput.Text, Data: []byte(s)} }
	return &pgoutput.Message{Kind: pgoutput.KindInsert, Relation: withHeaders, Tuple: pgoutput.Tuple{
		text(id), text("order"), text("k"), text("created"), text("{}"), text(headers),
	}}
}

func traceparentOf(trace, flags string) string {
	return fmt.Sprintf(`{"traceparent": "00-%s-%s-%s"}`, trace, aSpan, flags)
}

func recorderTo(t testing.TB, url string, sample float64, limit int) *traces.Recorder {
	t.Helper()
	r, err := traces.New(traces.Config{
		Settings: traces.Settings{
			URL: url, Sample: sample, Limit: limit, Queue: 4096, Batch: 512,
			Delay: 10 * time.Millisecond,
		},
		Slot: "cdc_outbox", Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	return r
}

// TestSpansOfSampledEvents: who gets a span, what is in it, and that the record keeps its header.
func TestSpansOfSampledEvents(t *testing.T) {
	to := collector.HTTP(t)
	recorder := recorderTo(t, to.URL+"/v1/traces", 0, 0)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- recorder.Run(ctx) }()
	defer func() {
		end()
		require.NoError(t, <-done)
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}()

	first := begin(100)
	first.Begin.XID, first.Begin.CommitTime = 771, time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	s := newStream(first, rowWithHeaders("plain", `{}`), rowWithHeaders("sampled", traceparentOf(aTrace, "01")),
		rowWithHeaders("not", traceparentOf(strings.Repeat("1", 32), "00")),
		rowWithHeaders("bad", traceparentOf(strings.ToUpper(aTrace), "01")), commit(150),
		begin(200), rowWithHeaders("again", traceparentOf(strings.Repeat("2", 32), "01")), commit(250))
	g := start(t, Config{Traces: recorder}, true, opening{at(50), s})
	got := to.Await(t, 2)
	g.stop()
	require.NoError(t, <-g.done)

	require.Len(t, to.Spans(), 2)
	require.Equal(t, aTrace, got[0].TraceID)
	require.Equal(t, aSpan, got[0].Parent)
	require.Equal(t, strings.Repeat("2", 32), got[1].TraceID)
	a := got[0].Attributes
	require.Equal(t, "sampled", a["messaging.message.id"])
	require.Equal(t, "order.events", a["messaging.destination.name"])
	require.Equal(t, "3", a["messaging.destination.partition.id"])
	require.Equal(t, int64(1001), a["messaging.kafka.offset"])
	require.Equal(t, "0/64", a["cdc_outbox.commit_lsn"])
	require.Equal(t, "0000000000000064-00000001", a["cdc_outbox.position"])
	require.Equal(t, int64(771), a["cdc_outbox.transaction"])
	require.InDelta(t, 60, a["cdc_outbox.commit_to_ack_seconds"], 5)
	require.NotContains(t, fmt.Sprint(a), "{}", "no payload")
	for _, rec := range g.producer.records {
		if string(rec.Headers[0].Value) == "sampled" {
			require.Equal(t, "00-"+aTrace+"-"+aSpan+"-01", string(rec.Headers[3].Value), "byte for byte the writer's")
		}
	}

	// The histogram's exemplars lead to the traces, for scrapers that ask for OpenMetrics.
	h := telemetry.NewHandler(telemetry.Handlers{
		Metrics: g.registry, Ready: func() (bool, string) { return true, "" },
		Status: func() any { return nil },
	})
	body := scrape(t, h, "application/openmetrics-text; version=1.0.0")
	require.Regexp(t, `cdc_outbox_commit_to_ack_seconds_bucket\{le="300.0"\} 2 # \{.*trace_id="`+aTrace+`".*\} 6\d\.`,
		body)
	require.True(t, strings.HasSuffix(body, "# EOF\n"))
	require.NotContains(t, scrape(t, h, "text/plain"), aTrace, "the plain format has no place for them")
}

func scrape(t *testing.T, h http.Handler, accept string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	b, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.Code)
	return string(b)
}

func TestTheHeaderThatCarriesTheTrace(t *testing.T) {
	value := "00-" + aTrace + "-" + aSpan + "-01"
	for name, headers := range map[string][]router.Header{
		"its own":         {{Key: "id", Value: []byte("1")}, {Key: "traceparent", Value: []byte(value)}},
		"CloudEvents":     {{Key: "ce_traceparent", Value: []byte(value)}},
		"Debezium's JSON": {{Key: "traceparent", Value: []byte(`"` + value + `"`)}},
		"not another's capitals": {
			{Key: "Traceparent", Value: []byte("x")},
			{Key: "traceparent", Value: []byte(value)},
		},
		"the first of two of them": {
			{Key: "traceparent", Value: []byte(value)},
			{Key: "traceparent", Value: []byte("x")},
		},
	} {
		require.Equal(t, value, string(traceparent(headers)), name)
	}
	require.Nil(t, traceparent([]router.Header{{Key: "id", Value: []byte("1")}}))
}

// discard is a producer that acknowledges in batches and does nothing else.
type discard struct {
	fakeProducer
	tickets []uint64
	bytes   int64
	tags    []sink.Tag
	ack     func(sink.Delivery)
}

func (d *discard) ProduceAt(_ context.Context, rec *router.Record, ticket uint64, _ sink.Position) error {
	if rec.Tag != nil {
		d.tags = append(d.tags, sink.Tag{Record: int32(len(d.tickets)), Tag: rec.Tag})
	}
	d.tickets, d.bytes = append(d.tickets, ticket), d.bytes+int64(rec.Size())
	if len(d.tickets) == 500 {
		d.ack(sink.Delivery{Topic: rec.Topic, Tickets: d.tickets, Bytes: d.bytes, Tags: d.tags, BaseOffset: 1})
		d.tickets, d.bytes, d.tags = d.tickets[:0], 0, d.tags[:0]
	}
	return nil
}
func (d *discard) Mark() {}

// BenchmarkRows is a row's way through the connector: tracker, router, window, trace, acknowledgement; without the
// servers. Transactions of ten.
func BenchmarkRows(b *testing.B) {
	plain, sampled, not := `{"source": "shop"}`, traceparentOf(aTrace, "01"), traceparentOf(aTrace, "00")
	for _, bm := range []struct {
		name, headers string
		sample        float64
		limit         int
	}{
		{"off", plain, -1, 0},
		{"off, with a traceparent", sampled, -1, 0},
		{"on, 1 percent, no traceparent", plain, 0.01, 1000},
		{"on, not sampled by the writer", not, 0.01, 1000},
		{"on, all sampled", sampled, 0.01, 1000},
		{"on, all sampled, without a limit", sampled, 0.01, 0},
	} {
		b.Run(bm.name, func(b *testing.B) { benchmarkRows(b, bm.headers, bm.sample, bm.limit) })
	}
}

func benchmarkRows(b *testing.B, headers string, sample float64, limit int) {
	r, err := outbox.New(outbox.Config{Columns: outbox.DefaultColumns(), Topic: outbox.DefaultTopic})
	require.NoError(b, err)
	cfg := Config{Router: r, Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Logger: zap.NewNop()}
	cfg.Sink = func(cb sink.Callbacks) (sink.Producer, error) { return &discard{ack: cb.Acked}, nil }
	if sample >= 0 {
		to := collector.HTTP(b)
		cfg.Traces = recorderTo(b, to.URL+"/v1/traces", sample, limit)
		ctx, end := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- cfg.Traces.Run(ctx) }()
		defer func() {
			end()
			<-done
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		}()
	}
	c, err := New(cfg)
	require.NoError(b, err)
	c.life = context.Background()
	t := offsets.NewTracker(1)
	c.tracker.Store(t)
	t.Resume()
	c.reader.tracker = t
	open, insert, done := begin(0), rowWithHeaders("4f3c9a2e-0000-7000-8000-000000000000", headers), commit(0)
	open.Begin.CommitTime = time.Now()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%10 == 0 {
			open.Begin.CommitLSN = lsn.LSN(1000 + 10*i)
			if err := c.reader.handle(open); err != nil {
				b.Fatal(err)
			}
		}
		if err := c.reader.handle(insert); err != nil {
			b.Fatal(err)
		}
		if i%10 == 9 {
			done.Commit.EndLSN = lsn.LSN(1005 + 10*i)
			if err := c.reader.handle(done); err != nil {
				b.Fatal(err)
			}
		}
	}
}
