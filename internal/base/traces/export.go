package traces

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// lastExport is how long the spans that are left may take when the process ends.
const lastExport = 2 * time.Second

// exporter is the part of an OTLP exporter that Run needs.
type exporter interface {
	ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error
	Shutdown(ctx context.Context) error
}

// newExporter makes the OTLP exporter, which itself reads the other OTEL_EXPORTER_OTLP_ variables: certificates,
// compression, timeout.
func newExporter(cfg *Config) (exporter, error) {
	// ExportSpans returns its errors; other messages of the library must not get between the lines of the log.
	log := cfg.Logger
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { log.Debug("OpenTelemetry library reports an error") }))
	ctx := context.Background() // nothing is connected to yet
	if cfg.GRPC {
		options := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(cfg.URL)}
		if len(cfg.Headers) > 0 {
			options = append(options, otlptracegrpc.WithHeaders(cfg.Headers))
		}
		return otlptrace.New(ctx, otlptracegrpc.NewClient(options...))
	}
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(cfg.URL)}
	if len(cfg.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(cfg.Headers))
	}
	return otlptrace.New(ctx, otlptracehttp.NewClient(options...))
}

// builder turns a Span into the exporter's form through the SDK, which knows limits, resource and encoding. It belongs
// to Run's goroutine, so the id generator can simply read the ids of the next span.
type builder struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
	next     *Span
	built    []sdk.ReadOnlySpan
}

func newBuilder(cfg *Config) (*builder, error) {
	res, err := resource.New(context.Background(),
		resource.WithAttributes(semconv.ServiceName("cdc-outbox"), semconv.ServiceVersion(cfg.Version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	)
	if res == nil {
		return nil, err
	}
	b := &builder{}
	b.provider = sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithIDGenerator(b), sdk.WithSpanProcessor(b))
	b.tracer = b.provider.Tracer("github.com/cdc-outbox/cdc-outbox", trace.WithInstrumentationVersion(cfg.Version))
	return b, nil
}

// NewIDs and NewSpanID are the SDK's IDGenerator.
func (b *builder) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	return b.next.traceID, b.next.spanID
}

// NewSpanID returns the id that Sample chose.
func (b *builder) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return b.next.spanID }

// OnStart and the others are the SDK's SpanProcessor.
func (b *builder) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd keeps the span for the next export.
func (b *builder) OnEnd(s sdk.ReadOnlySpan) { b.built = append(b.built, s) }

// Shutdown has nothing to do.
func (b *builder) Shutdown(context.Context) error { return nil }

// ForceFlush has nothing to do.
func (b *builder) ForceFlush(context.Context) error { return nil }

// add builds one span. Attributes have the names of OpenTelemetry's conventions for messaging if these have one.
func (b *builder) add(slot string, s *Span) {
	b.next = s
	ctx := context.Background()
	if s.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: s.traceID, SpanID: s.parent, TraceFlags: trace.FlagsSampled, Remote: true,
		}))
	}
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKafka, semconv.MessagingOperationTypeSend, semconv.MessagingOperationName("send"),
		semconv.MessagingDestinationName(s.Topic),
		semconv.MessagingDestinationPartitionID(strconv.Itoa(int(s.Partition))),
		semconv.MessagingMessageID(s.EventID),
		attribute.String("cdc_outbox.slot", slot), attribute.String("cdc_outbox.commit_lsn", s.Commit),
		attribute.String("cdc_outbox.position", s.Position),
		attribute.String("cdc_outbox.commit_time", s.Committed.UTC().Format(time.RFC3339Nano)),
		attribute.Float64("cdc_outbox.commit_to_ack_seconds", max(0, s.Acked.Sub(s.Committed).Seconds())),
	}
	if s.Offset >= 0 {
		attributes = append(attributes, semconv.MessagingKafkaOffset(int(s.Offset)))
	}
	if s.Transaction != 0 {
		attributes = append(attributes, attribute.Int64("cdc_outbox.transaction", int64(s.Transaction)))
	}
	_, span := b.tracer.Start(ctx, "send "+s.Topic, trace.WithTimestamp(s.Read),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(s.Acked))
}

// drainSpans empties the builder.
func (b *builder) drainSpans() []sdk.ReadOnlySpan {
	out := b.built
	b.built = nil
	return out
}

// Run sends the queued spans in batches until ctx ends; the remaining spans then get two more seconds. A collector that
// is slow, is unreachable or refuses spans costs spans, which are counted, and nothing else.
func (r *Recorder) Run(ctx context.Context) error {
	b, err := newBuilder(&r.cfg)
	if err != nil {
		return err
	}
	// An export in progress is not canceled immediately.
	exports, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		grace := time.AfterFunc(r.grace, cancel)
		context.AfterFunc(exports, func() { grace.Stop() })
	})()
	defer func() {
		r.exportAll(exports, b)
		_ = r.out.Shutdown(exports)
		_ = b.provider.Shutdown(exports)
	}()
	tick := time.NewTicker(r.cfg.Delay)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-r.queue:
			b.add(r.cfg.Slot, s)
			if len(b.built) < r.cfg.Batch {
				continue
			}
		case <-tick.C:
		}
		err := r.export(exports, b)
		failing = r.report(failing, err)
	}
}

// exportAll sends the remaining spans for as long as that succeeds.
func (r *Recorder) exportAll(ctx context.Context, b *builder) {
	for len(r.queue) > 0 {
		b.add(r.cfg.Slot, <-r.queue)
		if len(b.built) == r.cfg.Batch && r.export(ctx, b) != nil {
			break
		}
	}
	r.metrics.failed.Add(float64(len(r.queue)))
	_ = r.export(ctx, b)
}

// export sends the built spans. The exporter has its own timeout and its own retries.
func (r *Recorder) export(ctx context.Context, b *builder) error {
	spans := b.drainSpans()
	if len(spans) == 0 {
		return errNothing
	}
	if err := r.out.ExportSpans(ctx, spans); err != nil {
		r.metrics.failed.Add(float64(len(spans)))
		return err
	}
	r.metrics.exported.Add(float64(len(spans)))
	return nil
}

var errNothing = errors.New("nothing to export")

// report logs the two changes, not the state.
func (r *Recorder) report(was bool, err error) bool {
	switch {
	case errors.Is(err, errNothing) || errors.Is(err, context.Canceled):
		return was
	case err != nil && !was:
		r.log.Warn("traces do not reach the collector; spans are dropped until they do",
			zap.String(logkey.Address, r.cfg.URL), zap.String(logkey.Cause, r.cfg.masked(err)),
			zap.String(logkey.Next, "Check the collector, and traces.endpoint, traces.protocol and traces.headers."))
	case err == nil && was:
		r.log.Info("traces reach the collector again", zap.String(logkey.Address, r.cfg.URL))
	}
	return err != nil
}

// masked is the error's text without the values of the headers, in case the collector sent them back, with the scheme
// in front of a token or without it, and at most a line long.
func (s *Settings) masked(err error) string {
	text := err.Error()
	for _, v := range s.Headers {
		for _, secret := range []string{v, v[strings.LastIndexByte(v, ' ')+1:]} {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "***")
			}
		}
	}
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return strings.Join(strings.Fields(text), " ")
}
