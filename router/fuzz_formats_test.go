package router

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// Whatever a row holds, no format panics, an error is a RowError that names the row only, and where the format promises JSON it
// is JSON: in UTF-8 if the row is, and with the payload in it unchanged.
func FuzzFormats(f *testing.F) {
	for _, payload := range []string{`{"a":[1,2.5e300,-0,null,true,{"b":"\u00e9\ud83d\ude00"}]}`, `[]`, `[[1],[2.5]]`, `[{"a":1},{"b":[]}]`, `""`, "", "x\x00\x1f\"\\\u2028", `\x00ff`,
		`{"a":1e999}`, `{"":1}`, `{"a":"\ud800"}`, "\xff\xfe", `{"a":{"a":{"a":{}}}}`, `[1,99999999999999999999]`, `{"a":1,"a":"2"}`} {
		for _, oid := range []uint32{oidText, oidJSON, oidJSONB, oidBytea} {
			f.Add("e1", "order", "42", "placed", payload, `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`, "2", oid)
		}
	}
	f.Add("\x00", "\"", "\xf0\x9f\x98\x80", "\u2028", "{}", "{\"a\":\"\\u0000\"}", "007", uint32(oidText))
	f.Fuzz(func(t *testing.T, id, aggregateType, aggregateID, eventType, payload, headers, version string, oid uint32) {
		switch oid {
		case oidText, oidBytea:
		case oidJSON, oidJSONB: // Postgres lets nothing else in
			if !json.Valid([]byte(payload)) {
				return
			}
		default:
			return
		}
		rel := outboxRelation()
		rel.Columns[4].TypeOID = oid
		rel.Columns = append(rel.Columns, pgoutput.Column{Name: "event_version", TypeOID: oidText})
		row := append(plainRow(), pgoutput.Value{Kind: pgoutput.Text, Data: []byte(version)})
		for i, text := range []string{id, aggregateType, aggregateID, eventType, payload, headers} {
			row[i] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(text)}
		}
		valid := true
		for _, text := range []string{id, aggregateType, aggregateID, eventType, payload, version} {
			valid = valid && utf8.ValidString(text)
		}
		for _, c := range []Config{
			{Format: FormatEnvelope, KeyColumns: []string{"aggregate_type", "aggregate_id"}},
			{Format: FormatCloudEventsStructured, CloudEvents: CloudEvents{Source: "/s", DataContentType: "application/json", Extensions: []string{"event_version:version"}}},
			{Format: FormatCloudEventsStructured, CloudEvents: CloudEvents{Source: "/s", DataContentType: "text/plain"}},
			{Format: FormatCloudEventsBinary, CloudEvents: CloudEvents{Source: "/s"}},
		} {
			c.Columns, c.Topic = DefaultColumns(), "t"
			r, err := New(c)
			require.NoError(t, err)
			rec := routed(t, r, rel, row)
			if rec == nil {
				continue
			}
			if len(c.KeyColumns) > 1 {
				require.True(t, json.Valid(rec.Key), "%q", rec.Key)
			}
			if c.Format != FormatCloudEventsBinary {
				require.True(t, json.Valid(rec.Value), "%s: %q", c.Format, rec.Value)
				require.True(t, !valid || utf8.Valid(rec.Value), "%s: %q", c.Format, rec.Value)
			}
		}
		for _, converter := range []string{"string", "json", "json_with_schema", "binary"} {
			for _, change := range []func(*Debezium){
				func(*Debezium) {},
				func(d *Debezium) { d.Expand.Enabled = converter != "binary" },
				func(d *Debezium) {
					d.Expand = ExpandJSON{Enabled: converter != "binary", KeepNulls: true, KeepEmptyLists: true}
					d.Additional = []string{"event_version:header", "headers:header", "event_type:envelope"}
					if converter == "binary" {
						d.Additional = d.Additional[:2]
					}
				},
			} {
				r := debeziumRouter(t, func(d *Debezium) {
					d.Topic, d.ValueConverter, d.KeyConverter = "t", converter, "json"
					d.HeaderConverter = "json_with_schema"
					d.Columns = DebeziumColumns{ID: "id", Key: "aggregate_id", Payload: "payload", Route: "aggregate_type"}
					change(d)
				})
				rec := routed(t, r, rel, row)
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

// routed returns the record, or nil for a bad row.
func routed(t *testing.T, r *Router, rel *pgoutput.Relation, row pgoutput.Tuple) *Record {
	rec, err := r.Route(rel, row, source)
	if err != nil {
		var e *RowError
		require.True(t, errors.As(err, &e), err)
		require.NotEmpty(t, e.Detail)
		require.NotEmpty(t, e.Reason)
		return nil
	}
	return rec
}
