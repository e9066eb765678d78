package config

import (
	"regexp"
	"slices"
	"strings"
)

// topicName is what Kafka accepts (org.apache.kafka.common.internals.Topic): 249 characters of these, not . or ..
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Router says how a row becomes a record.
type Router struct {
	Preset          string      `key:"preset" default:"outbox" oneof:"outbox|debezium" doc:"outbox: the defaults of this section; debezium: names, topics and headers as Debezium's outbox event router has them."`
	Columns         Columns     `key:"columns"`
	Topic           string      `key:"topic" default:"${aggregate_type}.events" doc:"Topic of a row; ${aggregate_type}, ${aggregate_id} and ${type} are replaced by the row's column of that role, ${column:NAME} by any other column."`
	KeyColumns      []string    `key:"key_columns" example:"tenant,aggregate_id" doc:"Columns that the record's key is made of, in place of router.columns.aggregate_id. One gives its text; several give a JSON array of their texts, such as [\"eu\",\"42\"], which no other values can give."`
	Format          string      `key:"format" default:"payload" oneof:"payload|envelope|cloudevents_binary|cloudevents_structured" doc:"What the record's value is: payload, the payload column as it is; envelope, a JSON object with eventId, eventType, eventVersion, aggregateType, aggregateId, occurredAt, traceId and the payload as data; or a CloudEvent in the binary or the structured form of its Kafka binding."`
	StaticHeaders   []string    `key:"static_headers" example:"source=shop,region=eu" doc:"Headers that every record carries, as name=value."`
	ColumnHeaders   []string    `key:"column_headers" example:"tenant,event_version:version" doc:"Columns that become headers, as column or column:name. NULL gives a header with a null value."`
	Envelope        Envelope    `key:"envelope"`
	CloudEvents     CloudEvents `key:"cloudevents"`
	Registry        Registry    `key:"registry"`
	Debezium        Debezium    `key:"debezium"`
	OnBadRow        string      `key:"on_bad_row" default:"halt" oneof:"halt|dead_letter|skip" doc:"What to do with a row that can never be published as it is: halt in front of it and say so, write it to the dead-letter topic and go on, or skip it."`
	DeadLetterTopic string      `key:"dead_letter_topic" default:"cdc-outbox.dead-letter" doc:"Topic for dead letters. It must exist, be writable and keep its records (cleanup.policy=delete): while it cannot be written, nothing after a bad row is published."`
	BadRows         BadRows     `key:"bad_rows"`
}

// BadRows is on_bad_row for one kind of bad row each; empty means as on_bad_row says.
type BadRows struct {
	Unroutable    string `key:"unroutable" oneof:"|halt|dead_letter|skip" doc:"Policy for rows without a topic or with an illegal one. Empty: as router.on_bad_row."`
	NullKey       string `key:"null_key" oneof:"|halt|dead_letter|skip" doc:"Policy for rows whose id or aggregate id is NULL. Empty: as router.on_bad_row."`
	MissingColumn string `key:"missing_column" oneof:"|halt|dead_letter|skip" doc:"Policy for rows of a table that lacks a column, which means every row of it. Empty: as router.on_bad_row."`
	TooLarge      string `key:"too_large" oneof:"|halt|dead_letter|skip" doc:"Policy for records that are larger than their topic takes. halt waits, and goes on by itself when the topic's max.message.bytes is raised. Empty: as router.on_bad_row."`
	Unconvertible string `key:"unconvertible" oneof:"|halt|dead_letter|skip" doc:"Policy for rows with a value that is not what it has to be: headers that are no JSON object, a timestamp that is none. Empty: as router.on_bad_row."`
}

// Columns names the outbox table's columns by their role.
type Columns struct {
	ID            string `key:"id" default:"id" doc:"Column with the event's id; becomes the header id."`
	AggregateType string `key:"aggregate_type" default:"aggregate_type" doc:"Column that the topic is made from."`
	AggregateID   string `key:"aggregate_id" default:"aggregate_id" doc:"Column that becomes the record's key and so decides the partition."`
	Type          string `key:"type" default:"event_type" doc:"Column with the event's type; becomes the header type."`
	Payload       string `key:"payload" default:"payload" doc:"Column that becomes the record's value, byte for byte; NULL is a tombstone."`
	Headers       string `key:"headers" default:"headers" doc:"JSON object whose members become headers."`
	Timestamp     string `key:"timestamp" default:"created_at" doc:"Column that becomes the record's timestamp; where a row has none, the commit time."`
}

// PresetDebezium is the value of router.preset.
const PresetDebezium = "debezium"

// Roles returns the columns by role in effect, whichever preset names them.
func (r *Router) Roles() Columns {
	if r.Preset != PresetDebezium {
		return r.Columns
	}
	c := r.Debezium.Columns
	return Columns{ID: c.ID, AggregateType: c.Route, AggregateID: c.Key, Type: c.Type, Payload: c.Payload, Timestamp: c.Timestamp}
}

// router checks the section. What the router's own package knows about it, the commands check with that.
func (l *loader) router(r *Router) {
	l.ofOtherPreset(r)
	type need struct{ key, value string }
	needed := []need{
		{"router.columns.id", r.Columns.ID},
		{"router.columns.aggregate_type", r.Columns.AggregateType},
		{"router.columns.aggregate_id", r.Columns.AggregateID},
		{"router.columns.type", r.Columns.Type},
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
			l.fail(n.key, "", "must not be empty")
		}
	}
	if d := r.DeadLetterTopic; !topicName.MatchString(d) || d == "." || d == ".." {
		l.fail("router.dead_letter_topic", "1 to 249 of a-z, A-Z, 0-9, ., _ and -", "is not a topic name")
	}
}

// bothPresets are keys of the section that mean the same in either preset.
var bothPresets = []string{"router.preset", "router.on_bad_row", "router.bad_rows.", "router.dead_letter"}

// ofOtherPreset refuses keys that the preset doesn't read: who sets one believes that it does something.
func (l *loader) ofOtherPreset(r *Router) {
	for _, f := range fields() {
		if !strings.HasPrefix(f.Key, "router.") || slices.ContainsFunc(bothPresets, func(p string) bool { return strings.HasPrefix(f.Key, p) }) {
			continue
		}
		if g := l.given[f.Key]; g.Origin.Layer == "default" || f.Type != "list" && g.Text == f.Default || f.Type == "list" && strings.Join(g.list(), ",") == f.Default {
			continue
		}
		if own := strings.HasPrefix(f.Key, "router.debezium."); own != (r.Preset == PresetDebezium) {
			preset := PresetDebezium
			if !own {
				preset = "outbox"
			}
			l.fail(f.Key, "", "has no effect with router.preset %s; it belongs to the preset %s", r.Preset, preset)
		}
	}
}
