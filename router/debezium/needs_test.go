package debezium

import (
	"testing"

	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
	"github.com/stretchr/testify/require"
)

// The needs that are checked beforehand are the columns that the router requires, whatever setting names them.
func TestDebeziumNeeds(t *testing.T) {
	debezium := func(change func(*Config)) *Config {
		d := &Config{
			TopicPrefix: "shop", Columns: Columns{ID: "id", Key: "k", Payload: "p", Route: "r"}, TopicRegex: ".*",
			TopicReplacement: "t", ValueConverter: "string", KeyConverter: "string", HeaderConverter: "simple",
		}
		change(d)
		return d
	}
	for key, c := range map[string]struct {
		cfg      *Config
		required bool
	}{
		"router.debezium.columns.route":     {debezium(func(d *Config) { d.Columns.Route = "x" }), true},
		"router.debezium.columns.timestamp": {debezium(func(d *Config) { d.Columns.Timestamp = "x" }), true},
		"router.debezium.columns.tracing":   {debezium(func(d *Config) { d.Columns.Tracing = "x" }), false},
		"router.debezium.additional": {debezium(func(d *Config) {
			d.Additional = []string{"x:header:tenant"}
		}), true},
	} {
		t.Run(key, func(t *testing.T) {
			r, err := New(c.cfg)
			require.NoError(t, err)
			rowtest.Needs(t, key, c.required, c.cfg.Needs(), r)
		})
	}
}

func TestDebeziumNeedsWithoutAnEnvelope(t *testing.T) {
	d := &Config{Columns: Columns{SchemaVersion: "x"}, Additional: []string{"y:header"}, IgnoreMissing: true}
	for _, n := range d.Needs() {
		require.NotEqual(t, "x", n.Column, "without an envelope there is no schema to be versioned")
		require.False(t, n.Required)
	}
}
