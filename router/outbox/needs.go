package outbox

import "github.com/cdc-outbox/cdc-outbox/router"

// Needs lists the columns that a configuration reads, each with the settings that ask for it. Settings that New refuses
// are passed over.
func (cfg Config) Needs() []router.Need {
	c := cfg.Columns
	var all router.Needs
	for _, part := range []struct{ role, column string }{
		{"id", c.ID},
		{"aggregate_type", c.AggregateType},
		{"aggregate_id", c.AggregateID},
		{"type", c.Type},
		{"payload", c.Payload},
	} {
		all.Add(router.Need{
			Role: part.role, Key: "router.columns." + part.role, Column: part.column,
			Purpose: "it holds the event's " + part.role, Required: true,
		})
	}
	for _, part := range []struct{ role, column string }{{"headers", c.Headers}, {"timestamp", c.Timestamp}} {
		role := part.role
		if role == "timestamp" && cfg.TimestampUnit != "" {
			role = "timestamp_" + cfg.TimestampUnit
		}
		all.Add(router.Need{
			Role: role, Key: "router.columns." + part.role, Column: part.column,
			Purpose: "it holds the event's " + part.role, Usual: true,
		})
	}
	parts, _ := parseTemplate(cfg.Topic)
	for _, p := range parts {
		if p.role == roleColumn {
			all.Add(router.Need{
				Key: "router.topic", Column: p.text, Purpose: "the topic is built from it", Required: true,
			})
		}
	}
	for _, name := range cfg.KeyColumns {
		all.Add(router.Need{
			Key: "router.key_columns", Column: name, Purpose: "the key is built from it", Required: true,
		})
	}
	addNamed(&all, "router.column_headers", "a header is built from it", cfg.ColumnHeaders)
	switch cfg.Format {
	case FormatCloudEventsBinary, FormatCloudEventsStructured:
		addNamed(&all, "router.cloudevents.extensions", "an attribute is built from it", cfg.CloudEvents.Extensions)
	case FormatEnvelope:
		all.Add(router.Need{
			Key: "router.envelope.version_column", Column: cfg.Envelope.VersionColumn,
			Purpose: "it holds the event's version",
		})
		all.Add(router.Need{
			Key: "router.envelope.trace_id_column", Column: cfg.Envelope.TraceIDColumn,
			Purpose: "it holds the trace id",
		})
	}
	cfg.Registry.addNeeds(&all)
	return all
}

func (g *Registry) addNeeds(all *router.Needs) {
	all.Add(router.Need{
		Key: "router.registry.schema_id_column", Column: g.SchemaIDColumn, Purpose: "it holds the schema's id",
		Required: true,
	})
	parts, _ := parseSubject(g.Subject)
	for _, p := range parts {
		if p.role == roleColumn {
			all.Add(router.Need{
				Key: "router.registry.subject", Column: p.text, Purpose: "the subject of its schema is built from it",
				Required: true,
			})
		}
	}
	all.Add(router.Need{
		Key: "router.registry.version_column", Column: g.VersionColumn, Purpose: "it holds the schema's version",
		Required: true,
	})
	all.Add(router.Need{
		Key: "router.registry.message_indexes_column", Column: g.MessageIndexesColumn,
		Purpose: "it names the Protobuf message", Required: true,
	})
}

// addNamed adds the columns of entries such as column:name.
func addNamed(n *router.Needs, key, purpose string, entries []string) {
	for _, entry := range entries {
		if c, err := parseNamed(entry); err == nil {
			n.Add(router.Need{Key: key, Column: c.column, Purpose: purpose, Required: true})
		}
	}
}
