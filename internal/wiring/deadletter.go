package wiring

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// BadRows are the policies of the groups that have one of their own.
func BadRows(c *config.Loaded) map[router.Group]connector.BadRow {
	b := &c.Router.BadRows
	return map[router.Group]connector.BadRow{
		router.GroupUnroutable: connector.BadRow(b.Unroutable), router.GroupNullKey: connector.BadRow(b.NullKey),
		router.GroupMissingColumn: connector.BadRow(b.MissingColumn), router.GroupTooLarge: connector.BadRow(b.TooLarge),
		router.GroupUnconvertible: connector.BadRow(b.Unconvertible),
	}
}

// BadRowPolicy is that of a group, router.on_bad_row's where it has none of its own.
func BadRowPolicy(c *config.Loaded, g router.Group) connector.BadRow {
	return cmp.Or(BadRows(c)[g], connector.BadRow(c.Router.OnBadRow))
}

// WritesDeadLetters says whether some bad row becomes a dead letter.
func WritesDeadLetters(c *config.Loaded) bool {
	for _, g := range router.Groups() {
		if BadRowPolicy(c, g) == connector.DeadLetter {
			return true
		}
	}
	return false
}

// DeadLetters makes letters as run writes them.
func DeadLetters(c *config.Loaded) deadletter.Builder {
	columns := c.Router.Roles()
	b := deadletter.Builder{Topic: c.Router.DeadLetterTopic, Slot: c.Postgres.Slot, Columns: deadletter.Columns{
		ID: columns.ID, Key: columns.AggregateID, Type: columns.Type, Payload: columns.Payload,
	}}
	if c.Router.Preset == config.PresetDebezium {
		b.Partitions = true
		if strings.HasPrefix(c.Router.Debezium.HeaderConverter, "json") {
			b.ID = idInJSON
		}
	}
	return b
}

// idInJSON reads the id as JsonConverter writes it, with schema or without.
func idInJSON(header []byte) []byte {
	var withSchema struct{ Payload json.RawMessage }
	if json.Unmarshal(header, &withSchema) == nil && withSchema.Payload != nil {
		header = withSchema.Payload
	}
	var text *string
	switch err := json.Unmarshal(header, &text); {
	case err != nil: // a number
		return header
	case text == nil:
		return nil
	}
	return []byte(*text)
}
