package config

import "strings"

// Envelope is the JSON object that router.format: envelope wraps the payload in.
type Envelope struct {
	VersionColumn string `key:"version_column" default:"event_version" doc:"Column with the event's version, the member eventVersion. Where the table has none, or the value is NULL: router.envelope.version."`
	Version       string `key:"version" default:"1" doc:"Version of events without one of their own. A whole number is written as a JSON number, anything else as a string."`
	TraceIDColumn string `key:"trace_id_column" default:"trace_id" doc:"Column with the member traceId. Where the table has none, or the value is NULL: the trace id in the headers column's traceparent, else null."`
}

// CloudEvents is how router.format: cloudevents_binary and cloudevents_structured describe an event (CloudEvents 1.0).
type CloudEvents struct {
	Source          string   `key:"source" example:"/shop/orders" doc:"Attribute source, a URI reference that names who makes the events. Required by router.format: cloudevents_…."`
	DataContentType string   `key:"data_content_type" default:"application/json" doc:"Attribute datacontenttype: what the payload is. In the structured form a JSON type (…/json, …+json) puts the payload into data as it is, any other as a string; bytea becomes data_base64."`
	DataSchema      string   `key:"data_schema" example:"https://schemas.example.com/order" doc:"Attribute dataschema, a URI. Empty: none."`
	Extensions      []string `key:"extensions" example:"tenant,partition_key:partitionkey" doc:"Columns that become extension attributes, as column or column:name; names are of a-z and 0-9. NULL leaves the attribute out."`
}

// Registry frames payloads for a schema registry.
type Registry struct {
	SchemaIDColumn string `key:"schema_id_column" example:"schema_id" doc:"Column with the id of the payload's schema in a schema registry. The value then starts with Confluent's frame: a zero byte, then the id in four bytes. The payload itself, encoded by the application, passes as it is. Empty: no frame."`
	Format         string `key:"format" default:"avro" oneof:"avro|json|protobuf" doc:"What the payload is encoded as. protobuf adds the index of the message within its schema behind the id: always the first one."`
}

// unusedFormatKeys names sections that belong to a format which is not in force.
func unusedFormatKeys(r *Router) []string {
	var w []string
	unused := func(section, format string) {
		w = append(w, "router."+section+" has no effect while router.format is "+r.Format+"; it belongs to "+format)
	}
	if r.Preset == PresetDebezium {
		return nil // refused
	}
	if ce := &r.CloudEvents; !strings.HasPrefix(r.Format, "cloudevents_") && (ce.Source != "" || ce.DataSchema != "" || len(ce.Extensions) > 0) {
		unused("cloudevents", "cloudevents_binary and cloudevents_structured")
	}
	if e := r.Envelope; r.Format != "envelope" && e != (Envelope{VersionColumn: "event_version", Version: "1", TraceIDColumn: "trace_id"}) {
		unused("envelope", "envelope")
	}
	if r.Registry.SchemaIDColumn == "" && r.Registry.Format != "avro" {
		w = append(w, "router.registry.format has no effect while router.registry.schema_id_column is empty")
	}
	return w
}
