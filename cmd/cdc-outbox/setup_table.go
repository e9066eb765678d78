package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// tableDDL is the SQL that creates the outbox tables as the configured preset reads them.
func tableDDL(c *config.Loaded, tables []replication.Table) (string, error) {
	debezium := c.Router.Preset == config.PresetDebezium
	if !debezium && c.Router.Columns != standardColumns() {
		return "", usageError("--table creates the standard table, and router.columns names other columns",
			"leave router.columns at its defaults, or create the table yourself")
	}
	var all strings.Builder
	for _, t := range tables {
		var ddl string
		var err error
		if debezium {
			ddl, err = debeziumTable(&c.Router.Debezium, t)
		} else {
			ddl, err = outbox.Schema(outbox.Options{Schema: t.Schema, Table: t.Name})
		}
		switch {
		case err != nil && debezium:
			return "", err
		case err != nil:
			return "", &fault.Error{Kind: fault.Config, Object: "table " + t.String(), Err: err}
		}
		all.WriteString(ddl)
	}
	return all.String(), nil
}

// standardColumns are those of the table that outbox.Schema makes.
func standardColumns() config.Columns {
	return config.Columns{
		ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Type: "event_type",
		Payload: "payload", Headers: "headers", Timestamp: "created_at",
	}
}

// debeziumTable has the columns and types that the documentation of Debezium's event router shows, under the configured
// names. There is no default for the id: Debezium's producers make it themselves.
func debeziumTable(d *config.Debezium, t replication.Table) (string, error) {
	payload := "jsonb"
	if d.ValueConverter == "binary" {
		payload = "bytea"
	}
	columns := []struct{ name, kind string }{
		{d.Columns.ID, "uuid PRIMARY KEY"}, {d.Columns.Route, "varchar(255) NOT NULL"}, {d.Columns.Key, "varchar(255) NOT NULL"},
		{d.Columns.Type, "varchar(255) NOT NULL"}, {d.Columns.Payload, payload}, {d.Columns.Timestamp, "timestamp"},
		{d.Columns.SchemaVersion, "integer"}, {d.Columns.Tracing, "text"},
	}
	var names, lines []string
	for _, column := range columns {
		if column.name == "" || slices.Contains(names, column.name) {
			continue // one column may have several roles
		}
		names = append(names, column.name)
		lines = append(lines, "    "+replication.QuoteIdentifier(column.name)+" "+column.kind)
	}
	for _, entry := range d.Additional {
		name, _, _ := strings.Cut(entry, ":")
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			return "", usageError(fmt.Sprintf("--table does not know what type the column %q of router.debezium.additional has", name),
				"leave router.debezium.additional out while you run setup --table and add the column afterwards, or create the table yourself")
		}
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n%s\n);\n", t.SQL(), strings.Join(lines, ",\n")), nil
}
