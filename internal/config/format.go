package config

import "strings"

// Envelope configures the JSON object that wraps the payload with router.format: envelope.
type Envelope struct {
	// Column with the version of the event, the member `eventVersion`. If the table has no such column, or the
	// value is NULL, `router.envelope.version` applies.
	VersionColumn string `key:"version_column" default:"event_version"`

	// Version of events that have no version of their own. A whole number is written as a JSON number, anything
	// else as a string.
	Version string `key:"version" default:"1"`

	// Column with the member `traceId`. If the table has no such column, or the value is NULL, the member takes
	// the trace id from `traceparent` in the headers column. Without `traceparent`, it is null.
	TraceIDColumn string `key:"trace_id_column" default:"trace_id"`
}

// CloudEvents configures router.format: cloudevents_binary and cloudevents_structured (CloudEvents 1.0).
type CloudEvents struct {
	// Attribute `source`: a URI reference that names the producer of the events. Required by the CloudEvents
	// formats of `router.format`.
	Source string `key:"source" example:"/shop/orders"`

	// Attribute `datacontenttype`: the media type of the payload. In the structured form, a JSON type (`…/json`,
	// `…+json`) puts the payload into `data` unchanged, and any other type puts it there as a string. A payload of
	// type bytea becomes `data_base64`.
	DataContentType string `key:"data_content_type" default:"application/json"`

	// Attribute `dataschema`, a URI. Empty: the attribute is left out.
	DataSchema string `key:"data_schema" example:"https://schemas.example.com/order"`

	// Columns that become extension attributes, as `column` or `column:name`. A name consists of `a-z` and `0-9`.
	// NULL leaves the attribute out.
	Extensions []string `key:"extensions" example:"tenant,partition_key:partitionkey"`
}

// unusedFormatKeys warns of sections that belong to another format.
func unusedFormatKeys(r *Router) []string {
	var w []string
	unused := func(section, format string) {
		w = append(w, "router."+section+" has no effect while router.format is "+r.Format+"; it belongs to "+format)
	}
	if r.Preset == PresetDebezium {
		return nil // refused
	}
	ce := &r.CloudEvents
	ceSet := ce.Source != "" || ce.DataSchema != "" || len(ce.Extensions) > 0
	if ceSet && !strings.HasPrefix(r.Format, "cloudevents_") {
		unused("cloudevents", "cloudevents_binary and cloudevents_structured")
	}
	if r.Format != "envelope" && r.Envelope != plain().Router.Envelope {
		unused("envelope", "envelope")
	}
	return append(w, r.Registry.warnings()...)
}
