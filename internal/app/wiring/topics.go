package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/topics"
)

// Topics is how the rows of the tables name their topics.
func Topics(c *config.Loaded, dsn string, tables []identifier.Table) *topics.Outbox {
	col := c.Router.Roles()
	o := &topics.Outbox{DSN: dsn, Tables: tables, Columns: map[string]string{
		"${aggregate_type}": col.AggregateType,
		"${aggregate_id}":   col.AggregateID,
		"${type}":           col.Type,
	}}
	o.Template, o.Rename = routing.TopicNames(c)
	o.Derived = routing.Expressions(c)
	return o
}
