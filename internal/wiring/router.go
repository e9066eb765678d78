package wiring

import (
	"encoding/base64"
	"encoding/hex"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/routing"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Router is the present configuration's, with the topic, where it is not empty, in place of what names the row's.
func Router(c *config.Loaded, topic string) router.Config {
	rc := routing.Config(c)
	switch {
	case topic == "":
	case rc.Debezium != nil:
		rc.Debezium.Topic = topic
	default:
		rc.Topic = topic
	}
	return rc
}

// HeaderBytes is how Debezium's records have bytes in a header, binary.handling.mode.
func HeaderBytes(c *config.Loaded) func(string) ([]byte, error) {
	switch {
	case c.Router.Preset != config.PresetDebezium:
		return nil
	case c.Router.Debezium.BinaryHandling == "hex":
		return hex.DecodeString
	case c.Router.Debezium.BinaryHandling == "base64-url-safe":
		return base64.URLEncoding.DecodeString
	}
	return base64.StdEncoding.DecodeString
}
