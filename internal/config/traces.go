package config

// Traces configures the spans of sampled events, which go to an OpenTelemetry collector.
type Traces struct {
	// OTLP collector that receives a span for each sampled event; see docs/tracing.md. The URL starts with
	// `http://` or `https://`. If it has no path, `/v1/traces` is added. Empty: the standard variables
	// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and `OTEL_EXPORTER_OTLP_ENDPOINT` apply, and without them there are no
	// traces. `off`: no traces, whatever these variables say.
	Endpoint string `key:"endpoint" example:"http://otel-collector:4318"`

	// Protocol of the collector: `http` (protobuf, usually port 4318) or `grpc` (usually port 4317). Empty:
	// `OTEL_EXPORTER_OTLP_PROTOCOL` applies, otherwise `http`.
	Protocol string `key:"protocol" oneof:"|http|grpc"`

	// Share of the events without a `traceparent` that get a span, from 0 to 100% (or from 0 to 1). An event with
	// a `traceparent` gets a span exactly when the `traceparent` says that the trace is sampled. Not set:
	// `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` apply.
	Sample Share `key:"sample" default:"1%" example:"0.1%"`

	// Maximum number of spans per second. Events above the limit get no span and are counted. `0`: no limit.
	Limit int `key:"limit" default:"1000"`

	// Headers for the collector, such as `authorization=Bearer%20s3cret`: `name=value`, separated by commas,
	// values percent-encoded. They are read once, at the start. Empty: `OTEL_EXPORTER_OTLP_HEADERS` applies.
	Headers Secret `key:"headers" example:"@/run/secrets/otlp-headers"`
}
