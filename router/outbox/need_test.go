package outbox

import (
	"testing"

	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
	"github.com/stretchr/testify/require"
)

// The needs that are checked beforehand are the columns that the router requires, whatever setting names them.
func TestNeeds(t *testing.T) {
	outbox := func(change func(*Config)) Config {
		c := Config{
			Columns: DefaultColumns(), Topic: DefaultTopic, CloudEvents: CloudEvents{Source: "/shop"},
			Registry: Registry{Format: "avro"},
		}
		change(&c)
		return c
	}
	for key, c := range map[string]struct {
		cfg      Config
		required bool
	}{
		"router.columns.payload":           {outbox(func(c *Config) { c.Columns.Payload = "x" }), true},
		"router.columns.headers":           {outbox(func(c *Config) { c.Columns.Headers = "x" }), false},
		"router.topic":                     {outbox(func(c *Config) { c.Topic = "${column:x}.events" }), true},
		"router.key_columns":               {outbox(func(c *Config) { c.KeyColumns = []string{"id", "x"} }), true},
		"router.column_headers":            {outbox(func(c *Config) { c.ColumnHeaders = []string{"x:tenant"} }), true},
		"router.registry.schema_id_column": {outbox(func(c *Config) { c.Registry.SchemaIDColumn = "x" }), true},
		"router.registry.subject":          {outbox(func(c *Config) { c.Registry.Subject = "${column:x}" }), true},
		"router.registry.version_column":   {outbox(func(c *Config) { c.Registry.VersionColumn = "x" }), true},
		"router.registry.message_indexes_column": {
			outbox(func(c *Config) { c.Registry.MessageIndexesColumn = "x" }), true,
		},
		"router.envelope.version_column": {outbox(func(c *Config) {
			c.Format, c.Envelope.VersionColumn = FormatEnvelope, "x"
		}), false},
		"router.envelope.trace_id_column": {outbox(func(c *Config) {
			c.Format, c.Envelope.TraceIDColumn = FormatEnvelope, "x"
		}), false},
		"router.cloudevents.extensions": {outbox(func(c *Config) {
			c.Format, c.CloudEvents.Extensions = FormatCloudEventsBinary, []string{"x"}
		}), true},
	} {
		t.Run(key, func(t *testing.T) {
			r, err := New(c.cfg)
			require.NoError(t, err)
			rowtest.Needs(t, key, c.required, c.cfg.Needs(), r)
		})
	}
}

// What no format in force reads is not asked for.
func TestNeedsOfOtherFormats(t *testing.T) {
	c := Config{
		Columns: DefaultColumns(), Topic: DefaultTopic, Envelope: Envelope{VersionColumn: "x"},
		CloudEvents: CloudEvents{Extensions: []string{"x"}},
	}
	for _, n := range c.Needs() {
		require.NotEqual(t, "x", n.Column)
	}
}
