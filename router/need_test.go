package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// What is looked for beforehand is what the router cannot do without, whatever setting asks for it.
func TestNeeds(t *testing.T) {
	outbox := func(change func(*Config)) Config {
		c := Config{Columns: DefaultColumns(), Topic: DefaultTopic, CloudEvents: CloudEvents{Source: "/shop"}, Registry: Registry{Format: "avro"}}
		change(&c)
		return c
	}
	debezium := func(change func(*Debezium)) Config {
		d := &Debezium{
			TopicPrefix: "shop", Columns: DebeziumColumns{ID: "id", Key: "k", Payload: "p", Route: "r"}, TopicRegex: ".*", TopicReplacement: "t",
			ValueConverter: "string", KeyConverter: "string", HeaderConverter: "simple",
		}
		change(d)
		return Config{Debezium: d}
	}
	for key, c := range map[string]struct {
		cfg      Config
		required bool
	}{
		"router.columns.payload":            {outbox(func(c *Config) { c.Columns.Payload = "x" }), true},
		"router.columns.headers":            {outbox(func(c *Config) { c.Columns.Headers = "x" }), false},
		"router.topic":                      {outbox(func(c *Config) { c.Topic = "${column:x}.events" }), true},
		"router.key_columns":                {outbox(func(c *Config) { c.KeyColumns = []string{"id", "x"} }), true},
		"router.column_headers":             {outbox(func(c *Config) { c.ColumnHeaders = []string{"x:tenant"} }), true},
		"router.registry.schema_id_column":  {outbox(func(c *Config) { c.Registry.SchemaIDColumn = "x" }), true},
		"router.envelope.version_column":    {outbox(func(c *Config) { c.Format, c.Envelope.VersionColumn = FormatEnvelope, "x" }), false},
		"router.envelope.trace_id_column":   {outbox(func(c *Config) { c.Format, c.Envelope.TraceIDColumn = FormatEnvelope, "x" }), false},
		"router.cloudevents.extensions":     {outbox(func(c *Config) { c.Format, c.CloudEvents.Extensions = FormatCloudEventsBinary, []string{"x"} }), true},
		"router.debezium.columns.route":     {debezium(func(d *Debezium) { d.Columns.Route = "x" }), true},
		"router.debezium.columns.timestamp": {debezium(func(d *Debezium) { d.Columns.Timestamp = "x" }), true},
		"router.debezium.columns.tracing":   {debezium(func(d *Debezium) { d.Columns.Tracing = "x" }), false},
		"router.debezium.additional":        {debezium(func(d *Debezium) { d.Additional = []string{"x:header:tenant"} }), true},
	} {
		t.Run(key, func(t *testing.T) {
			rel := &pgoutput.Relation{OID: 1, Namespace: "public", Name: "outbox"}
			var found bool
			for _, n := range c.cfg.Needs() {
				if n.Column == "x" {
					require.Equal(t, key, n.Key)
					require.Equal(t, c.required, n.Required)
					found = true
				} else if rel.Column(n.Column) < 0 {
					rel.Columns = append(rel.Columns, pgoutput.Column{Name: n.Column, TypeOID: oidText, Modifier: -1})
				}
			}
			require.True(t, found)
			r, err := New(c.cfg)
			require.NoError(t, err)
			require.Equal(t, !c.required, r.Fits(rel))
			with := *rel
			with.Columns = append(with.Columns[:len(with.Columns):len(with.Columns)], pgoutput.Column{Name: "x", TypeOID: oidText, Modifier: -1})
			require.True(t, r.Fits(&with), "nothing else is needed")
		})
	}
}

// What no format in force reads is not asked for.
func TestNeedsOfOtherFormats(t *testing.T) {
	c := Config{Columns: DefaultColumns(), Topic: DefaultTopic, Envelope: Envelope{VersionColumn: "x"}, CloudEvents: CloudEvents{Extensions: []string{"x"}}}
	for _, n := range c.Needs() {
		require.NotEqual(t, "x", n.Column)
	}
	d := &Debezium{Columns: DebeziumColumns{SchemaVersion: "x"}, Additional: []string{"y:header"}, IgnoreMissing: true}
	for _, n := range (Config{Debezium: d}).Needs() {
		require.NotEqual(t, "x", n.Column, "without an envelope there is no schema to be versioned")
		require.False(t, n.Required)
	}
}
