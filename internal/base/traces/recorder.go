package traces

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Config configures a Recorder.
type Config struct {
	Settings
	Slot       string
	Version    string // of this program
	Registerer prometheus.Registerer
	Logger     *zap.Logger
}

// Recorder decides which events get a span, and sends the spans. Make one with New, run it once. A nil Recorder is one
// that is off.
type Recorder struct {
	cfg     Config
	bound   uint64 // of a random number, below which an event without a parent is sampled
	queue   chan *Span
	out     exporter
	metrics metrics
	log     *zap.Logger
	grace   time.Duration // of the spans that are left at the end

	second time.Time // that taken counts; these two belong to the caller of Sample
	taken  int
}

// Span is one sampled event in transit. Sample chooses the identity; the caller fills in the rest.
type Span struct {
	traceID trace.TraceID
	spanID  trace.SpanID
	parent  trace.SpanID // zeros: none

	EventID     string
	Transaction uint32 // Postgres' id, 0 if it is not known
	Commit      string // LSN of the commit record
	Position    string
	Committed   time.Time
	Read        time.Time // when the relay took the row
	Topic       string
	Partition   int32
	Offset      int64 // -1: not known
	Acked       time.Time
}

// TraceID and SpanID are the span's identity as text.
func (s *Span) TraceID() string { return s.traceID.String() }

// SpanID is the relay's own span.
func (s *Span) SpanID() string { return s.spanID.String() }

type metrics struct{ exported, limited, dropped, failed prometheus.Counter }

// New makes a Recorder from the settings that Resolve returned. It opens no connection.
func New(cfg Config) (*Recorder, error) {
	out, err := newExporter(&cfg)
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.Config, Object: "traces", Err: err,
			Next: "Correct the traces section of the configuration, or the OTEL_ variables.",
		}
	}
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "cdc_outbox", Name: "trace_spans_total",
		Help: "Spans of sampled events: exported to the collector, limited to traces.limit, " +
			"dropped because the queue was full, or failed at the collector.",
	}, []string{"result"})
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(spans)
	}
	bound := uint64(math.MaxUint64)
	if cfg.Sample < 1 {
		bound = uint64(cfg.Sample * (1 << 63) * 2)
	}
	return &Recorder{
		cfg: cfg, bound: bound, queue: make(chan *Span, cfg.Queue), out: out, log: cfg.Logger,
		grace: lastExport,
		metrics: metrics{
			exported: spans.WithLabelValues("exported"), limited: spans.WithLabelValues("limited"),
			dropped: spans.WithLabelValues("dropped"), failed: spans.WithLabelValues("failed"),
		},
	}, nil
}

// Sample decides whether an event gets a span, and returns nil if not. The writer's decision, the flag of traceparent,
// counts if there is one. An event with no traceparent or an invalid one is sampled by chance: it joins the trace with
// the given id, or begins a trace. Only one goroutine may call Sample.
func (r *Recorder) Sample(traceparent, traceID []byte) *Span {
	if len(traceparent) > 0 {
		if p, ok := parseTraceparent(traceparent); ok {
			if !p.sampled {
				return nil
			}
			return r.admit(p.traceID, p.spanID)
		}
	}
	if r.bound == 0 || r.bound != math.MaxUint64 && rand.Uint64() >= r.bound {
		return nil
	}
	id, ok := parseTraceID(traceID)
	if !ok {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // never all zeros
	}
	return r.admit(id, trace.SpanID{})
}

// admit makes the span, unless this second already has too many. The limit bounds the cost of traces: if writers sample
// everything, a relay with a backlog would otherwise do little besides making spans.
func (r *Recorder) admit(id trace.TraceID, parent trace.SpanID) *Span {
	if r.cfg.Limit > 0 {
		if now := time.Now(); now.Sub(r.second) >= time.Second {
			r.second, r.taken = now, 0
		}
		if r.taken++; r.taken > r.cfg.Limit {
			r.metrics.limited.Inc()
			return nil
		}
	}
	return &Span{traceID: id, spanID: newSpanID(), parent: parent, Offset: -1}
}

func newSpanID() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// End takes over a span whose event is acknowledged. It never waits. The caller must not use the span afterwards.
func (r *Recorder) End(s *Span) {
	select {
	case r.queue <- s:
	default:
		r.metrics.dropped.Inc()
	}
}
