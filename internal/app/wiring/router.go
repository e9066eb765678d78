package wiring

import (
	"encoding/base64"
	"encoding/hex"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

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
