// Trace context into events. Apart from outbox, so that a service without traces does not get OpenTelemetry.
module github.com/cdc-outbox/cdc-outbox/outbox/oteloutbox

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
