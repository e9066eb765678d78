// Package telemetry is how the process shows itself: the logger, errors as log fields, the metrics and the HTTP
// server with /metrics, /healthz, /readyz and /status.
//
// Nothing in here ever receives a payload, a password or a connection string; callers log keys and numbers.
package telemetry
