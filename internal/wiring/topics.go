package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/topics"
	"github.com/cdc-outbox/cdc-outbox/router/debezium"
)

// Topics is how the rows of the tables name their topics.
func Topics(c *config.Loaded, dsn string, tables []identifier.Table) *topics.Outbox {
	col := c.Router.Roles()
	o := &topics.Outbox{DSN: dsn, Tables: tables, Template: c.Router.Topic, Columns: map[string]string{
		"${aggregate_type}": col.AggregateType,
		"${aggregate_id}":   col.AggregateID,
		"${type}":           col.Type,
	}}
	if c.Router.Preset == config.PresetDebezium {
		o.Template = "${aggregate_type}"
		o.Rename = debezium.Topics(c.Router.Debezium.TopicRegex, c.Router.Debezium.TopicReplacement)
	}
	return o
}
