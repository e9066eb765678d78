// Package collector is an OpenTelemetry collector in process: it takes OTLP over HTTP and gRPC and keeps what it gets.
package collector

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	service "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Span is one that was received, in words that a test can compare.
type Span struct {
	Name, Kind               string
	TraceID, SpanID, Parent  string
	Start, End               time.Time
	Attributes, Resource     map[string]any
	Scope                    string
	Authorization, UserAgent string // of the request
}

// Collector keeps the spans it got.
type Collector struct {
	service.UnimplementedTraceServiceServer

	URL string

	mu      sync.Mutex
	spans   []Span
	changed chan struct{} // closed and replaced with each arrival
	refuse  int           // HTTP status, 0 for none
}

// HTTP starts one that speaks OTLP/HTTP.
func HTTP(t testing.TB) *Collector {
	c := &Collector{changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(c.post))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// GRPC starts one that speaks OTLP/gRPC.
func GRPC(t testing.TB) *Collector {
	c := &Collector{changed: make(chan struct{})}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	service.RegisterTraceServiceServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until Stop
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	c.URL = "http://" + l.Addr().String()
	return c
}

// Refuse answers HTTP requests with the status from now on; 0: takes them.
func (c *Collector) Refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = status
}

func (c *Collector) post(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	refuse := c.refuse
	c.mu.Unlock()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			http.Error(w, "no gzip", http.StatusBadRequest)
			return
		}
	}
	b, err := io.ReadAll(body)
	var request service.ExportTraceServiceRequest
	switch {
	case refuse != 0:
		http.Error(w, "refused "+r.Header.Get("Authorization"), refuse)
	case r.Method != http.MethodPost || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf":
		http.Error(w, "not OTLP", http.StatusNotFound)
	case err != nil || proto.Unmarshal(b, &request) != nil:
		http.Error(w, "malformed", http.StatusBadRequest)
	default:
		c.addSpans(&request, r.Header.Get("Authorization"), r.UserAgent())
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

// Export is the gRPC method.
func (c *Collector) Export(ctx context.Context,
	request *service.ExportTraceServiceRequest,
) (*service.ExportTraceServiceResponse, error) {
	head, _ := metadata.FromIncomingContext(ctx)
	c.addSpans(request, strings.Join(head.Get("authorization"), ","), strings.Join(head.Get("user-agent"), ","))
	return &service.ExportTraceServiceResponse{}, nil
}

func (c *Collector) addSpans(request *service.ExportTraceServiceRequest, authorization, agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range request.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, Span{
					Name: s.Name, Kind: strings.TrimPrefix(otlp.Span_SpanKind_name[int32(s.Kind)], "SPAN_KIND_"),
					TraceID: hex.EncodeToString(s.TraceId), SpanID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), Start: time.Unix(0, int64(s.StartTimeUnixNano)),
					End: time.Unix(0, int64(s.EndTimeUnixNano)), Attributes: values(s.Attributes),
					Resource: values(rs.Resource.GetAttributes()), Scope: ss.Scope.GetName(),
					Authorization: authorization, UserAgent: agent,
				})
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func values(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[kv.Key] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			m[kv.Key] = v.BoolValue
		}
	}
	return m
}

// Spans returns what has come so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Await waits for n spans, and fails the test where they do not come.
func (c *Collector) Await(t testing.TB, n int) []Span {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		c.mu.Lock()
		changed, spans := c.changed, append([]Span(nil), c.spans...)
		c.mu.Unlock()
		if len(spans) >= n {
			return spans
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%d spans came, %d were due", len(spans), n)
		}
	}
}
