package config

// Debezium is the preset debezium: the outbox event router of Debezium's PostgreSQL connector, option by option. What
// differs on purpose is listed in docs/debezium-differences.md.
type Debezium struct {
	TopicPrefix         string          `key:"topic_prefix" example:"shop" doc:"Debezium's topic.prefix (called database.server.name once): the first part of schema names, and the header __debezium.context.connectorLogicalName. Required by the preset debezium."`
	Columns             DebeziumColumns `key:"columns"`
	TopicRegex          string          `key:"topic_regex" default:"(?<routedByValue>.*)" doc:"route.topic.regex: a Java regular expression that the whole value of the route column must match. Where it does not, the topic is the value itself. What Go's regexp cannot do the same way is refused."`
	TopicReplacement    string          `key:"topic_replacement" default:"outbox.event.${routedByValue}" doc:"route.topic.replacement: the topic, in Java's replacement syntax with $1 and ${name} for groups. In Debezium Server's properties the dollar is doubled; here it is not."`
	Additional          []string        `key:"additional" example:"type:header:eventType,tenant:envelope,shard:partition" doc:"table.fields.additional.placement: column:placement or column:placement:alias; the placements are header, envelope and partition."`
	AdditionalMissing   string          `key:"additional_missing" default:"error" oneof:"error|ignore" doc:"table.field.additional.missing: what a column of router.debezium.additional does that the table does not have. error makes every row of the table a bad row."`
	TombstoneOnEmpty    bool            `key:"tombstone_on_empty_payload" default:"false" doc:"route.tombstone.on.empty.payload: a payload that is NULL, empty or nothing but blanks becomes a tombstone. An empty bytea does not."`
	ExpandJSON          bool            `key:"expand_json" default:"false" doc:"table.expand.json.payload: parse the payload and write it again as a JSON value with an inferred schema. Needs a value_converter of json or json_with_schema."`
	ExpandJSONNull      string          `key:"expand_json_null" default:"ignore" oneof:"ignore|optional_bytes" doc:"table.json.payload.null.behavior: what expansion does with members that are null: ignore leaves them out, optional_bytes keeps them."`
	ExpandJSONEmptyList string          `key:"expand_json_empty_array" default:"ignore" oneof:"ignore|optional_string" doc:"table.json.payload.empty.array.behavior: what expansion does with empty arrays: ignore leaves them out, optional_string keeps them."`
	ValueConverter      string          `key:"value_converter" default:"string" oneof:"string|json|json_with_schema|binary" doc:"value.converter: string is StringConverter, json and json_with_schema are JsonConverter with schemas.enable false and true (Connect's default), binary is Debezium's BinaryDataConverter or ByteArrayConverter, for a bytea payload."`
	KeyConverter        string          `key:"key_converter" default:"string" oneof:"string|json|json_with_schema|binary" doc:"key.converter, in the words of router.debezium.value_converter."`
	HeaderConverter     string          `key:"header_converter" default:"simple" oneof:"simple|string|json|json_with_schema" doc:"header.converter: simple is Connect's default, json_with_schema what Debezium Server writes by default."`
	ContextHeaders      bool            `key:"context_headers" default:"true" doc:"The headers __debezium.context.connectorLogicalName, .taskId, .connectorName and .runId in front of each record's own, as Debezium 3.5 and later write them (extended.headers.enabled)."`
	PositionHeader      bool            `key:"position_header" default:"false" doc:"Add the header position (commit LSN and index within the transaction), as the last one. Debezium has no such header."`
	DecimalHandling     string          `key:"decimal_handling" default:"precise" oneof:"precise|double|string" doc:"decimal.handling.mode of the connector: how numeric and money columns are represented."`
	TimePrecision       string          `key:"time_precision" default:"adaptive" oneof:"adaptive|adaptive_time_microseconds|connect|microseconds|nanoseconds|isostring" doc:"time.precision.mode of the connector: how date, time and timestamp columns are represented."`
	BinaryHandling      string          `key:"binary_handling" default:"bytes" oneof:"bytes|base64|base64-url-safe|hex" doc:"binary.handling.mode of the connector: how bytea columns are represented."`
	HStoreHandling      string          `key:"hstore_handling" default:"json" oneof:"json|map" doc:"hstore.handling.mode of the connector: how hstore columns are represented."`
	IntervalHandling    string          `key:"interval_handling" default:"numeric" oneof:"numeric|string" doc:"interval.handling.mode of the connector: how interval columns are represented."`
}

// DebeziumColumns names the columns as the router's options do; the names are Debezium's defaults.
type DebeziumColumns struct {
	ID            string `key:"id" default:"id" doc:"table.field.event.id: the column that becomes the header id."`
	Key           string `key:"key" default:"aggregateid" doc:"table.field.event.key: the column that becomes the record's key."`
	Type          string `key:"type" default:"type" doc:"table.field.event.type. Debezium never reads it; here it serves check and the log. The type reaches consumers by router.debezium.additional."`
	Payload       string `key:"payload" default:"payload" doc:"table.field.event.payload: the column that becomes the record's value."`
	Route         string `key:"route" default:"aggregatetype" doc:"route.by.field: the column that the topic is made from."`
	Timestamp     string `key:"timestamp" doc:"table.field.event.timestamp: the column that becomes the record's timestamp. Empty, or NULL in a row: the time of the commit."`
	SchemaVersion string `key:"schema_version" doc:"table.field.event.schema.version: an integer column that becomes the version of the envelope's schema. Without an envelope it has no effect."`
	Tracing       string `key:"tracing" example:"tracingspancontext" doc:"tracing.span.context.field: a column with java.util.Properties text, whose entries become headers in front of the id. Debezium does so where OpenTelemetry is on its class path. Empty: none."`
}
