package debezium

import (
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// Needs lists the columns that a configuration reads, each with the settings that ask for it.
func (d *Config) Needs() []router.Need {
	c := d.Columns
	placements, _ := d.parsePlacements()
	envelope := slices.ContainsFunc(placements, func(p placement) bool { return p.where == placedEnvelope })
	var all router.Needs
	add := func(role, name, column string, required bool) {
		all.Add(router.Need{
			Role: role, Key: "router.debezium.columns." + name, Column: column, Purpose: "it holds the event's " + name,
			Required: required, Usual: true,
		})
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
		all.Add(router.Need{
			Key: "router.debezium.additional", Column: p.column, Purpose: fmt.Sprintf("its placement is %s", p.where),
			Required: !d.IgnoreMissing,
		})
	}
	return all
}
