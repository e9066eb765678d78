package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// newRouter translates the connector's JSON and makes a router of it.
func newRouter(c *testCase, cat *catalog) (*router.Router, error) {
	d := router.DefaultDebezium()
	d.Catalog = cat.of
	d.RunID = "01900000-0000-7000-8000-000000000000"
	d.TopicPrefix = c.config["topic.prefix"]
	var err error
	for option, value := range c.config {
		if name, ok := strings.CutPrefix(option, "transforms.outbox."); ok {
			translateOption(d, name, value)
		}
	}
	if d.KeyConverter, err = converterWord(c.config, "key.converter"); err != nil {
		return nil, err
	}
	if d.ValueConverter, err = converterWord(c.config, "value.converter"); err != nil {
		return nil, err
	}
	if _, ok := c.config["header.converter"]; ok {
		if d.HeaderConverter, err = converterWord(c.config, "header.converter"); err != nil {
			return nil, err
		}
	}
	for option, words := range map[string][]string{"table.op.invalid.behavior": {"", "warn", "error", "fatal"}, "table.field.additional.missing": {"", "error", "ignore"}} {
		if v := c.config["transforms.outbox."+option]; !slices.Contains(words, v) {
			return nil, fmt.Errorf("%s: %q", option, v)
		}
	}
	d.ContextHeaders = c.config["extended.headers.enabled"] != "false"
	for option, to := range map[string]*string{
		"decimal.handling.mode": &d.DecimalHandling, "time.precision.mode": &d.TimePrecision, "binary.handling.mode": &d.BinaryHandling,
		"hstore.handling.mode": &d.HStoreHandling, "interval.handling.mode": &d.IntervalHandling,
	} {
		if v, ok := c.config[option]; ok {
			*to = v
		}
	}
	return router.New(router.Config{Debezium: d})
}

func translateOption(d *router.Debezium, name, value string) {
	switch name {
	case "table.field.event.id":
		d.Columns.ID = value
	case "table.field.event.key":
		d.Columns.Key = value
	case "table.field.event.payload":
		d.Columns.Payload = value
	case "table.field.event.timestamp":
		d.Columns.Timestamp = value
	case "table.field.event.schema.version":
		d.Columns.SchemaVersion = value
	case "route.by.field":
		d.Columns.Route = value
	case "route.topic.regex":
		d.TopicRegex = value
	case "route.topic.replacement":
		d.TopicReplacement = value
	case "table.fields.additional.placement":
		d.Additional = strings.Split(value, ",")
	case "table.field.additional.missing":
		d.IgnoreMissing = value == "ignore"
	case "route.tombstone.on.empty.payload":
		d.TombstoneOnEmpty = value == "true"
	case "table.expand.json.payload":
		d.Expand.Enabled = value == "true"
	case "table.json.payload.null.behavior":
		d.Expand.KeepNulls = value == "optional_bytes"
	}
}

func converterWord(config map[string]string, option string) (string, error) {
	name := config[option]
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "StringConverter":
		return "string", nil
	case "JsonConverter", "":
		if config[option+".decimal.format"] == "NUMERIC" {
			return "", fmt.Errorf("decimal.format")
		}
		if config[option+".schemas.enable"] == "false" {
			return "json", nil
		}
		return "json_with_schema", nil
	case "BinaryDataConverter", "ByteArrayConverter":
		if config[option+".delegate.converter.type"] != "" {
			return "", fmt.Errorf("delegate")
		}
		return "binary", nil
	}
	return "", fmt.Errorf("converter %s", name)
}
