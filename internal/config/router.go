package config

import (
	"regexp"
	"slices"
	"strings"
)

// topicName matches the characters of the names that Kafka accepts (org.apache.kafka.common.internals.Topic); their
// length, and . and .., are for the caller: a regexp with a bound of 249 costs every start of the program half a MB.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// Router configures how a row becomes a record.
type Router struct {
	// `outbox` uses the keys of this section. `debezium` produces the names, topics and headers of Debezium's
	// outbox event router; see `router.debezium`.
	Preset string `key:"preset" default:"outbox" oneof:"outbox|debezium"`

	// Columns of the outbox table, by role. With the preset `debezium`, `router.debezium.columns` applies instead.
	Columns Columns `key:"columns"`

	// Topic of a row. `${aggregate_type}`, `${aggregate_id}` and `${type}` are replaced by the value of the column
	// with that role, `${column:NAME}` by the value of any other column, `${table}` and `${schema}` by the name of the
	// table, as the publication names it: without `publish_via_partition_root`, of the partition.
	Topic string `key:"topic" default:"${aggregate_type}.events"`

	// Regular expression (Go's, RE2). Each match in the name that `router.topic` gives is replaced. Anchor it with `^`
	// and `$`.
	TopicRegex string `key:"topic_regex" example:"^/queue/"`

	// What takes the place of a match of `router.topic_regex`; `${1}` is its first group. Empty removes the match.
	TopicReplacement string `key:"topic_replacement" example:"${1}.events"`

	// Unit of a timestamp column that counts from 1970, such as a bigint with milliseconds: `s`, `ms` or `us`. Empty:
	// the column is a timestamp. With a unit, rows cannot be chosen by time (`replay --since`, `prune --older-than`).
	TimestampUnit string `key:"timestamp_unit" oneof:"|s|ms|us"`

	// Columns that tables do not have: members of JSON columns, by a name that other keys can use like a column's.
	// `column/member`, or `column/member/member`; in a name, `~1` stands for a slash and `~0` for a tilde. Text that
	// holds JSON will do. A string gives its text, anything else its JSON, null and a member that is not there NULL.
	JSONColumns map[string]string `key:"json_columns" example:"{\"partition_id\": \"headers/PARTITION_ID\"}"`

	// Columns that tables do not have and that are the same in every row.
	ConstantColumns map[string]string `key:"constant_columns" example:"{\"kind\": \"order\"}"`

	// Columns that form the record key, instead of `router.columns.aggregate_id`. One column gives its text. Several
	// columns give a JSON array of their texts, such as `["eu","42"]`, so different values never give the same key.
	KeyColumns []string `key:"key_columns" example:"tenant,aggregate_id"`

	// What the record value contains. `payload`: the payload column, unchanged. `envelope`: a JSON object with
	// `eventId`, `eventType`, `eventVersion`, `aggregateType`, `aggregateId`, `occurredAt`, `traceId`, and the payload
	// as `data`. `cloudevents_binary` and `cloudevents_structured`: a CloudEvent in that form of its Kafka binding.
	Format string `key:"format" default:"payload" oneof:"payload|envelope|cloudevents_binary|cloudevents_structured"`

	// Headers of every record, as `name=value`.
	StaticHeaders []string `key:"static_headers" example:"source=shop,region=eu"`

	// Columns that become headers, as `column` or `column:name`. NULL gives a header with a null value.
	ColumnHeaders []string `key:"column_headers" example:"tenant,event_version:version"`

	// The JSON object of `router.format: envelope`.
	Envelope Envelope `key:"envelope"`

	// The attributes of `router.format: cloudevents_binary` and `cloudevents_structured` (CloudEvents 1.0).
	CloudEvents CloudEvents `key:"cloudevents"`

	// The frame of payloads whose schema is in a schema registry.
	Registry Registry `key:"registry"`

	// The preset `debezium`: the outbox event router of Debezium's PostgreSQL connector, option by option. Each entry
	// starts with the name of Debezium's option. docs/debezium-differences.md lists the intended differences.
	Debezium Debezium `key:"debezium"`

	// What to do with a row that can never be published as it is. `halt` stops in front of the row and reports it,
	// `dead_letter` writes the row to the dead-letter topic and continues, `skip` drops the row and continues.
	OnBadRow string `key:"on_bad_row" default:"halt" oneof:"halt|dead_letter|skip"`

	// Topic for dead letters. It must exist, be writable and keep its records (`cleanup.policy=delete`). While it
	// cannot be written, nothing after a bad row is published.
	DeadLetterTopic string `key:"dead_letter_topic" default:"cdc-outbox.dead-letter"`

	// Policies for single kinds of bad row, in place of `router.on_bad_row`.
	BadRows BadRows `key:"bad_rows"`
}

// BadRows overrides router.on_bad_row for single kinds of bad row.
type BadRows struct {
	// Policy for rows without a topic, with an illegal topic, or for a partition that the topic lacks. Empty:
	// `router.on_bad_row` applies.
	Unroutable string `key:"unroutable" oneof:"|halt|dead_letter|skip"`

	// Policy for rows whose id or aggregate id is NULL. Empty: `router.on_bad_row` applies.
	NullKey string `key:"null_key" oneof:"|halt|dead_letter|skip"`

	// Policy for rows of a table that lacks a column. It applies to every row of that table. Empty:
	// `router.on_bad_row` applies.
	MissingColumn string `key:"missing_column" oneof:"|halt|dead_letter|skip"`

	// Policy for records that are larger than their topic allows. `halt` waits, and continues automatically when
	// `max.message.bytes` of the topic is raised. Empty: `router.on_bad_row` applies.
	TooLarge string `key:"too_large" oneof:"|halt|dead_letter|skip"`

	// Policy for rows with a value of the wrong form, such as headers that are not a JSON object or an invalid
	// timestamp. Empty: `router.on_bad_row` applies.
	Unconvertible string `key:"unconvertible" oneof:"|halt|dead_letter|skip"`

	// Policy for rows whose schema the schema registry does not have. `halt` waits, and continues automatically when it
	// is registered. Empty: `router.on_bad_row` applies.
	UnknownSchema string `key:"unknown_schema" oneof:"|halt|dead_letter|skip"`

	// Policy for rows whose payload does not fit its schema, with `router.registry.encode`. Empty: `router.on_bad_row`
	// applies.
	PayloadDoesNotFit string `key:"payload_does_not_fit" oneof:"|halt|dead_letter|skip"`
}

// Columns names the columns of the outbox table by role.
type Columns struct {
	// Column with the id of the event. It becomes the header `id`.
	ID string `key:"id" default:"id"`

	// Column with the aggregate type, which the default of `router.topic` uses. Empty for a table without one.
	AggregateType string `key:"aggregate_type" default:"aggregate_type"`

	// Column with the aggregate id. It becomes the record key and so decides the partition.
	AggregateID string `key:"aggregate_id" default:"aggregate_id"`

	// Column with the type of the event. It becomes the header `type`. Empty for a table without one: then there is no
	// such header.
	Type string `key:"type" default:"event_type"`

	// Column that becomes the record value, byte for byte. NULL gives a tombstone.
	Payload string `key:"payload" default:"payload"`

	// Column with a JSON object whose members become headers.
	Headers string `key:"headers" default:"headers"`

	// Column that becomes the record timestamp. Empty, or a row without a value: the commit time. A row that is too old
	// for its topic, or in the future, takes the present time, and a header has its own; see docs/consuming-events.md.
	Timestamp string `key:"timestamp" default:"created_at"`
}

// PresetDebezium is the value of router.preset.
const PresetDebezium = "debezium"

// Roles returns the columns by role, as the preset in effect names them.
func (r *Router) Roles() Columns {
	if r.Preset != PresetDebezium {
		return r.Columns
	}
	c := r.Debezium.Columns
	return Columns{
		ID: c.ID, AggregateType: c.Route, AggregateID: c.Key, Type: c.Type, Payload: c.Payload, Timestamp: c.Timestamp,
	}
}

// router checks the section. The commands check the rest with the router's own package.
func (l *loader) router(r *Router) {
	l.ofOtherPreset(r)
	type need struct{ key, value string }
	needed := []need{
		{"router.columns.id", r.Columns.ID},
		{"router.columns.aggregate_id", r.Columns.AggregateID},
		{"router.columns.payload", r.Columns.Payload},
		{"router.topic", r.Topic},
	}
	if r.Preset == PresetDebezium {
		d := &r.Debezium
		needed = []need{
			{"router.debezium.topic_prefix", d.TopicPrefix},
			{"router.debezium.columns.id", d.Columns.ID},
			{"router.debezium.columns.route", d.Columns.Route},
			{"router.debezium.columns.key", d.Columns.Key},
			{"router.debezium.columns.payload", d.Columns.Payload},
		}
	}
	for _, n := range needed {
		if n.value == "" {
			problem := "must not be empty"
			if n.key == "router.columns.aggregate_id" {
				problem += "; name the column of the id if the events need no order"
			}
			l.fail(n.key, "", "%s", problem)
		}
	}
	if r.Preset != PresetDebezium {
		l.derivedColumns(r)
		l.registry(&r.Registry)
	}
	if d := r.DeadLetterTopic; len(d) > 249 || !topicName.MatchString(d) || d == "." || d == ".." {
		l.fail("router.dead_letter_topic", "1 to 249 of a-z, A-Z, 0-9, ., _ and -", "is not a topic name")
	}
}

// derivedColumns refuses derived columns if a statement needs a column of the table.
func (l *loader) derivedColumns(r *Router) {
	derived := func(name string) bool {
		_, member := r.JSONColumns[name]
		_, constant := r.ConstantColumns[name]
		return member || constant
	}
	for name := range r.ConstantColumns {
		if _, twice := r.JSONColumns[name]; twice {
			l.fail("router.constant_columns", "", "has %q, which router.json_columns has, too", name)
		}
	}
	const own = "a column of the table"
	for key, name := range map[string]string{
		"router.columns.id": r.Columns.ID, "router.columns.timestamp": r.Columns.Timestamp,
	} {
		if name != "" && derived(name) {
			l.fail(key, own, "is a derived column, and rows are also searched by it in SQL")
		}
	}
	key := r.Columns.AggregateID
	if len(r.KeyColumns) > 0 {
		key = r.KeyColumns[0]
	}
	if l.given["source"].Text == SourcePolling && derived(key) {
		l.fail("router.columns.aggregate_id", own, "is a derived column, and with source: polling its rows are "+
			"divided by it in SQL")
	}
}

// bothPresets are the keys of the section that mean the same in either preset.
var bothPresets = []string{"router.preset", "router.on_bad_row", "router.bad_rows.", "router.dead_letter"}

// reads reports whether the preset reads a key. Keys outside the section are not its own.
func (r *Router) reads(key string) bool {
	both := slices.ContainsFunc(bothPresets, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	return !strings.HasPrefix(key, "router.") || both ||
		strings.HasPrefix(key, "router.debezium.") == (r.Preset == PresetDebezium)
}

// ofOtherPreset refuses keys that the preset does not read, because an operator who sets one expects an effect.
func (l *loader) ofOtherPreset(r *Router) {
	for _, f := range fields() {
		if r.reads(f.Key) || l.given[f.Key].isDefault(f) {
			continue
		}
		preset := PresetDebezium
		if r.Preset == PresetDebezium {
			preset = "outbox"
		}
		l.fail(f.Key, "", "has no effect with router.preset %s; it belongs to the preset %s", r.Preset, preset)
	}
}
