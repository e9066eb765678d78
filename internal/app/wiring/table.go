package wiring

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// tableDDL is the SQL that creates the outbox tables as the configured preset reads them.
func tableDDL(c *config.Loaded, admin setup.Config) (string, error) {
	debezium := c.Router.Preset == config.PresetDebezium
	if !debezium && c.Router.Columns != standardColumns() {
		return "", fault.Usage("--table creates the standard table, and router.columns names other columns",
			"leave router.columns at its defaults, or create the table yourself")
	}
	if err := knowsColumns(c, admin.Columns.Needed); err != nil {
		return "", err
	}
	var all strings.Builder
	for _, t := range admin.Tables {
		if debezium {
			all.WriteString(debeziumTable(&c.Router.Debezium, t))
			continue
		}
		ddl, err := outbox.Schema(outbox.Options{Schema: t.Schema, Table: t.Name})
		if err != nil {
			return "", &fault.Error{Kind: fault.Config, Object: "table " + t.String(), Err: err}
		}
		all.WriteString(ddl)
	}
	return all.String(), nil
}

// standardColumns are the columns of the table that outbox.Schema creates.
func standardColumns() config.Columns {
	return config.Columns{
		ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Type: "event_type",
		Payload: "payload", Headers: "headers", Timestamp: "created_at",
	}
}

// knowsColumns refuses to create a table that lacks a column without which every row would be bad.
func knowsColumns(c *config.Loaded, needed []postgres.NeededColumn) error {
	col := standardColumns()
	known := []string{col.ID, col.AggregateType, col.AggregateID, col.Type, col.Payload, col.Headers, col.Timestamp}
	if c.Router.Preset == config.PresetDebezium {
		known = nil
		for _, column := range debeziumColumns(&c.Router.Debezium) {
			known = append(known, column.name)
		}
	}
	for _, n := range needed {
		if n.Required && !slices.Contains(known, n.Name) {
			return fault.Usage(fmt.Sprintf(
				"--table does not know what type the column %q has, which %s names", n.Name, n.Key,
			),
				fmt.Sprintf(
					"leave %s out while you run setup --table and add the column afterwards, or create the table "+
						"yourself",
					n.Key,
				))
		}
	}
	return nil
}

type tableColumn struct{ name, kind string }

// debeziumColumns are the columns and types that the documentation of Debezium's event router shows, under the
// configured names. There is no default for the id: Debezium's producers make it themselves.
func debeziumColumns(d *config.Debezium) []tableColumn {
	payload := "jsonb"
	if d.ValueConverter == "binary" {
		payload = "bytea"
	}
	var columns []tableColumn
	for _, column := range []tableColumn{
		{d.Columns.ID, "uuid PRIMARY KEY"},
		{
			d.Columns.Route, "varchar(255) NOT NULL",
		},
		{d.Columns.Key, "varchar(255) NOT NULL"},
		{d.Columns.Type, "varchar(255) NOT NULL"},
		{d.Columns.Payload, payload},
		{d.Columns.Timestamp, "timestamp"},
		{d.Columns.SchemaVersion, "integer"},
		{d.Columns.Tracing, "text"},
	} {
		known := func(other tableColumn) bool { return other.name == column.name }
		if column.name != "" && !slices.ContainsFunc(columns, known) { // one column may have several roles
			columns = append(columns, column)
		}
	}
	return columns
}

func debeziumTable(d *config.Debezium, t identifier.Table) string {
	var lines []string
	for _, column := range debeziumColumns(d) {
		lines = append(lines, "    "+identifier.Quote(column.name)+" "+column.kind)
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n%s\n);\n", t.SQL(), strings.Join(lines, ",\n"))
}
