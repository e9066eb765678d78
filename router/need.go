package router

import (
	"fmt"
	"slices"
)

// Need is a column that records are made of. The list of them is the one place that knows: the router finds by it whether a
// table will do, and whoever looks at table and publication beforehand asks for the same.
type Need struct {
	Role    string // which of Columns it is, as router.columns has it (with the preset debezium, its counterpart); empty: another one
	Key     string // the setting that names it
	Column  string
	Purpose string // "it holds …", "the key is made of it"

	Required bool // without it every row is a bad one
	Usual    bool // where it is not required: that a table lacks it is worth a word
}

// Needs lists the columns that a configuration reads, each with the settings that ask for it. Settings that New refuses are
// passed over.
func (cfg Config) Needs() []Need {
	if cfg.Debezium != nil {
		return cfg.Debezium.needs()
	}
	c := cfg.Columns
	var all needs
	for _, part := range []struct{ role, column string }{
		{"id", c.ID}, {"aggregate_type", c.AggregateType}, {"aggregate_id", c.AggregateID}, {"type", c.Type}, {"payload", c.Payload},
	} {
		all.add(Need{Role: part.role, Key: "router.columns." + part.role, Column: part.column, Purpose: "it holds the event's " + part.role, Required: true})
	}
	for _, part := range []struct{ role, column string }{{"headers", c.Headers}, {"timestamp", c.Timestamp}} {
		all.add(Need{Role: part.role, Key: "router.columns." + part.role, Column: part.column, Purpose: "it holds the event's " + part.role, Usual: true})
	}
	parts, _ := parseTemplate(cfg.Topic)
	for _, p := range parts {
		if p.role == roleColumn {
			all.add(Need{Key: "router.topic", Column: p.text, Purpose: "the topic is made of it", Required: true})
		}
	}
	for _, name := range cfg.KeyColumns {
		all.add(Need{Key: "router.key_columns", Column: name, Purpose: "the key is made of it", Required: true})
	}
	all.named("router.column_headers", "a header is made of it", cfg.ColumnHeaders)
	switch cfg.Format {
	case FormatCloudEventsBinary, FormatCloudEventsStructured:
		all.named("router.cloudevents.extensions", "an attribute is made of it", cfg.CloudEvents.Extensions)
	case FormatEnvelope:
		all.add(Need{Key: "router.envelope.version_column", Column: cfg.Envelope.VersionColumn, Purpose: "it holds the event's version"})
		all.add(Need{Key: "router.envelope.trace_id_column", Column: cfg.Envelope.TraceIDColumn, Purpose: "it holds the trace id"})
	}
	all.add(Need{Key: "router.registry.schema_id_column", Column: cfg.Registry.SchemaIDColumn, Purpose: "it holds the schema's id", Required: true})
	return all
}

func (d *Debezium) needs() []Need {
	c := d.Columns
	placements, _ := d.parsePlacements()
	envelope := slices.ContainsFunc(placements, func(p placement) bool { return p.where == placedEnvelope })
	var all needs
	add := func(role, name, column string, required bool) {
		all.add(Need{Role: role, Key: "router.debezium.columns." + name, Column: column, Purpose: "it holds the event's " + name, Required: required, Usual: true})
	}
	add("id", "id", c.ID, true)
	add("aggregate_type", "route", c.Route, true)
	add("aggregate_id", "key", c.Key, true)
	add("payload", "payload", c.Payload, true)
	add("timestamp", "timestamp", c.Timestamp, true)
	if envelope {
		add("", "schema_version", c.SchemaVersion, true)
	}
	add("", "tracing", c.Tracing, false)
	for _, p := range placements {
		all.add(Need{Key: "router.debezium.additional", Column: p.column, Purpose: fmt.Sprintf("its placement is %s", p.where), Required: !d.IgnoreMissing})
	}
	return all
}

type needs []Need

// add leaves out what no column is named for.
func (n *needs) add(need Need) {
	if need.Column != "" {
		*n = append(*n, need)
	}
}

func (n *needs) named(key, purpose string, entries []string) {
	for _, entry := range entries {
		if c, err := parseNamed(entry); err == nil {
			n.add(Need{Key: key, Column: c.column, Purpose: purpose, Required: true})
		}
	}
}
