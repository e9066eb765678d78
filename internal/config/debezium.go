package config

// Debezium configures the preset debezium. Its comments start with the name of Debezium's option.
type Debezium struct {
	// `topic.prefix`, formerly `database.server.name`: the first part of schema names, and the header
	// `__debezium.context.connectorLogicalName`. Required by the preset `debezium`.
	TopicPrefix string `key:"topic_prefix" example:"shop"`

	// Columns of the outbox table, named as Debezium's options name them.
	Columns DebeziumColumns `key:"columns"`

	// `route.topic.regex`: a Java regular expression that must match the whole value of the route column. If it
	// does not match, the topic is the value itself. An expression that Go's regexp cannot reproduce is refused.
	TopicRegex string `key:"topic_regex" default:"(?<routedByValue>.*)"`

	// `route.topic.replacement`: the topic, in Java's replacement syntax with `$1` and `${name}` for groups.
	// Debezium Server's properties double the dollar sign; this key does not.
	TopicReplacement string `key:"topic_replacement" default:"outbox.event.${routedByValue}"`

	// `table.fields.additional.placement`: `column:placement` or `column:placement:alias`. The placements are
	// `header`, `envelope` and `partition`.
	Additional []string `key:"additional" example:"type:header:eventType,tenant:envelope,shard:partition"`

	// `table.field.additional.missing`: what happens when the table lacks a column of
	// `router.debezium.additional`. `error` makes every row of the table a bad row.
	AdditionalMissing string `key:"additional_missing" default:"error" oneof:"error|ignore"`

	// `route.tombstone.on.empty.payload`: a payload that is NULL, empty or only blanks becomes a tombstone. An
	// empty bytea does not.
	TombstoneOnEmpty bool `key:"tombstone_on_empty_payload" default:"false"`

	// `table.expand.json.payload`: parse the payload and write it again as a JSON value with an inferred schema.
	// This needs `json` or `json_with_schema` as `router.debezium.value_converter`.
	ExpandJSON bool `key:"expand_json" default:"false"`

	// `table.json.payload.null.behavior`: what the expansion does with members that are null. `ignore` leaves them
	// out, `optional_bytes` keeps them.
	ExpandJSONNull string `key:"expand_json_null" default:"ignore" oneof:"ignore|optional_bytes"`

	// `table.json.payload.empty.array.behavior`: what the expansion does with empty arrays. `ignore` leaves them
	// out, `optional_string` keeps them.
	ExpandJSONEmptyList string `key:"expand_json_empty_array" default:"ignore" oneof:"ignore|optional_string"`

	// `value.converter`. `string` is `StringConverter`. `json` and `json_with_schema` are `JsonConverter` with
	// `schemas.enable` `false` and `true` (`true` is Connect's default). `binary` is Debezium's
	// `BinaryDataConverter` or `ByteArrayConverter`, for a payload of type bytea.
	ValueConverter string `key:"value_converter" default:"string" oneof:"string|json|json_with_schema|binary"`

	// `key.converter`, with the same values as `router.debezium.value_converter`.
	KeyConverter string `key:"key_converter" default:"string" oneof:"string|json|json_with_schema|binary"`

	// `header.converter`. `simple` is Connect's default, `json_with_schema` is the default of Debezium Server.
	HeaderConverter string `key:"header_converter" default:"simple" oneof:"simple|string|json|json_with_schema"`

	// `extended.headers.enabled`: the headers `__debezium.context.connectorLogicalName`, `.taskId`,
	// `.connectorName` and `.runId` before the other headers of each record, as Debezium 3.5 and later write them.
	ContextHeaders bool `key:"context_headers" default:"true"`

	// Add the header `position` (commit LSN and index within the transaction) as the last header. Debezium has no
	// such header.
	PositionHeader bool `key:"position_header" default:"false"`

	// `decimal.handling.mode` of the connector: how numeric and money columns are represented.
	DecimalHandling string `key:"decimal_handling" default:"precise" oneof:"precise|double|string"`

	// `time.precision.mode` of the connector: how date, time and timestamp columns are represented.
	TimePrecision string `key:"time_precision" default:"adaptive" oneof:"time precisions"`

	// `binary.handling.mode` of the connector: how bytea columns are represented.
	BinaryHandling string `key:"binary_handling" default:"bytes" oneof:"bytes|base64|base64-url-safe|hex"`

	// `hstore.handling.mode` of the connector: how hstore columns are represented.
	HStoreHandling string `key:"hstore_handling" default:"json" oneof:"json|map"`

	// `interval.handling.mode` of the connector: how interval columns are represented.
	IntervalHandling string `key:"interval_handling" default:"numeric" oneof:"numeric|string"`
}

// DebeziumColumns names the columns as the router's options do; the names are Debezium's defaults.
type DebeziumColumns struct {
	// `table.field.event.id`: the column that becomes the header `id`.
	ID string `key:"id" default:"id"`

	// `table.field.event.key`: the column that becomes the record key.
	Key string `key:"key" default:"aggregateid"`

	// `table.field.event.type`. Debezium never reads this column; here, `check` and the log use it. To send the
	// type to consumers, use `router.debezium.additional`.
	Type string `key:"type" default:"type"`

	// `table.field.event.payload`: the column that becomes the record value.
	Payload string `key:"payload" default:"payload"`

	// `route.by.field`: the column that gives the topic.
	Route string `key:"route" default:"aggregatetype"`

	// `table.field.event.timestamp`: the column that becomes the record timestamp. Empty, or NULL in a row: the
	// commit time.
	Timestamp string `key:"timestamp"`

	// `table.field.event.schema.version`: an integer column that becomes the version of the envelope's schema.
	// Without an envelope it has no effect.
	SchemaVersion string `key:"schema_version"`

	// `tracing.span.context.field`: a column with text in the format of `java.util.Properties`, whose entries
	// become headers before the id. Debezium does this when OpenTelemetry is on its class path. Empty: none.
	Tracing string `key:"tracing" example:"tracingspancontext"`
}
