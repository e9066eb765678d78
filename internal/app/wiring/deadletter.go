package wiring

import (
	"encoding/json"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Policies are the configured policies for bad rows.
func Policies(c *config.Loaded) relay.Policies {
	b := &c.Router.BadRows
	return relay.Policies{Default: relay.Policy(c.Router.OnBadRow), Groups: map[router.Group]relay.Policy{
		router.GroupUnroutable: relay.Policy(b.Unroutable), router.GroupNullKey: relay.Policy(b.NullKey),
		router.GroupMissingColumn: relay.Policy(b.MissingColumn), router.GroupTooLarge: relay.Policy(b.TooLarge),
		router.GroupUnconvertible: relay.Policy(b.Unconvertible),
		router.GroupUnknownSchema: relay.Policy(b.UnknownSchema),

		router.GroupPayloadDoesNotFit: relay.Policy(b.PayloadDoesNotFit),
	}}
}

// WritesDeadLetters reports whether some bad row becomes a dead letter.
func WritesDeadLetters(c *config.Loaded) bool {
	for _, g := range router.Groups() {
		if Policies(c).Of(g) == relay.DeadLetter {
			return true
		}
	}
	return false
}

// DeadLetters makes letters as run writes them.
func DeadLetters(c *config.Loaded) deadletter.Builder {
	columns := c.Router.Roles()
	return deadletter.Builder{Topic: c.Router.DeadLetterTopic, Slot: c.Postgres.Slot, Columns: deadletter.Columns{
		ID: columns.ID, Key: columns.AggregateID, Type: columns.Type, Payload: columns.Payload,
	}}
}

// IDOf reads an event's id out of its record's header, nil for a configuration where the header is the id.
func IDOf(c *config.Loaded) func(header []byte) []byte {
	if c.Router.Preset == config.PresetDebezium && strings.HasPrefix(c.Router.Debezium.HeaderConverter, "json") {
		return idInJSON
	}
	return nil
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
