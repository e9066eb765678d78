package debezium

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
	"github.com/stretchr/testify/require"
)

// Whatever a row holds, no converter panics, an error is a RowError that names the row only, and where the converter
// promises JSON it is JSON, in UTF-8 if the row is.
func FuzzConverters(f *testing.F) {
	rowtest.Seeds(f)
	f.Fuzz(func(t *testing.T, id, aggregateType, aggregateID, eventType, payload, headers, version string, oid uint32) {
		rel, row, valid := rowtest.FuzzRow([7]string{
			id, aggregateType, aggregateID, eventType, payload, headers, version,
		}, oid)
		if rel == nil {
			return
		}
		for _, converter := range []string{"string", "json", "json_with_schema", "binary"} {
			for _, change := range []func(*Config){
				func(*Config) {},
				func(d *Config) { d.Expand.Enabled = converter != "binary" },
				func(d *Config) {
					d.Expand = ExpandJSON{Enabled: converter != "binary", KeepNulls: true, KeepEmptyLists: true}
					d.Additional = []string{"event_version:header", "headers:header", "event_type:envelope"}
					if converter == "binary" {
						d.Additional = d.Additional[:2]
					}
				},
			} {
				r := debeziumRouter(t, func(d *Config) {
					d.Topic, d.ValueConverter, d.KeyConverter = "t", converter, "json"
					d.HeaderConverter = "json_with_schema"
					d.Columns = Columns{ID: "id", Key: "aggregate_id", Payload: "payload", Route: "aggregate_type"}
					change(d)
				})
				rec := rowtest.Route(t, r, rel, row)
				if rec == nil {
					continue
				}
				require.True(t, json.Valid(rec.Key))
				for _, h := range rec.Headers {
					require.True(t, json.Valid(h.Value), "%s: %q", h.Key, h.Value)
				}
				if converter == "json" || converter == "json_with_schema" {
					require.True(t, json.Valid(rec.Value), "%s: %q", converter, rec.Value)
					require.True(t, !valid || utf8.Valid(rec.Value), "%q", rec.Value)
				}
			}
		}
	})
}
