package config

// Traces sends a span for each sampled event to an OpenTelemetry collector.
type Traces struct {
	Endpoint string `key:"endpoint" example:"http://otel-collector:4318" doc:"Collector that takes OTLP: a span for each sampled event goes there, docs/tracing.md. http:// or https://, without a path /v1/traces is added. Empty: as the standard variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT say, and without them none; off for none whatever they say."`
	Protocol string `key:"protocol" oneof:"|http|grpc" doc:"How the collector is spoken to: http (protobuf, usually port 4318) or grpc (usually port 4317). Empty: as OTEL_EXPORTER_OTLP_PROTOCOL says, else http."`
	Sample   Share  `key:"sample" default:"1%" example:"0.1%" doc:"Share of the events without a traceparent that get a span, from 0 to 100% (or from 0 to 1). Of those with one, all get a span whose traceparent says that the trace is sampled, and no others. Where it is not set, OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG count."`
	Limit    int    `key:"limit" default:"1000" doc:"Spans a second at most; events beyond it get none, and are counted. 0: no limit."`
	Headers  Secret `key:"headers" example:"@/run/secrets/otlp-headers" doc:"Headers for the collector, such as authorization=Bearer%20s3cret: name=value, several with commas between, values percent-encoded. Read at the start. Empty: as OTEL_EXPORTER_OTLP_HEADERS says."`
}
