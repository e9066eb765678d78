package outbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
)

func formatRouter(t testing.TB, change func(*Config)) *Router {
	cfg := Config{
		Columns: DefaultColumns(), Topic: DefaultTopic,
		Envelope:    Envelope{VersionColumn: "event_version", Version: "1", TraceIDColumn: "trace_id"},
		CloudEvents: CloudEvents{Source: "/shop", DataContentType: "application/json"},
		Registry:    Registry{Format: "avro"},
	}
	change(&cfg)
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

// wideRow is a row of wideRelation, which has columns without a role.
func wideRow(tenant, version string) pgoutput.Tuple {
	return append(plainRow(), rowtest.Texts(tenant, version)...)
}

func wideRelation() *pgoutput.Relation {
	rel := rowtest.Table()
	rel.Columns = append(rel.Columns, pgoutput.Column{Name: "tenant", TypeOID: layout.OIDText}, pgoutput.Column{
		Name: "event_version", TypeOID: 23,
	})
	return rel
}

func TestColumnPlaceholder(t *testing.T) {
	r := formatRouter(t, func(c *Config) { c.Topic = "${column:tenant}.${aggregate_type}" })
	rec, err := r.Route(wideRelation(), wideRow("eu", "1"), rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "eu.order", rec.Topic)

	row := wideRow("", "1")
	_, err = r.Route(wideRelation(), row, rowtest.Source)
	require.Equal(t, router.Unroutable, rowtest.Reason(t, err))

	_, err = r.Route(rowtest.Table(), plainRow(), rowtest.Source)
	require.Equal(t, router.MissingColumn, rowtest.Reason(t, err))
	for _, template := range []string{"${column:}", "${column}", "__${column:tenant}"} {
		_, err := New(Config{Columns: DefaultColumns(), Topic: template})
		require.Error(t, err, template)
	}
}

func TestKeyColumns(t *testing.T) {
	one := formatRouter(t, func(c *Config) { c.KeyColumns = []string{"tenant"} })
	two := formatRouter(t, func(c *Config) { c.KeyColumns = []string{"tenant", "aggregate_id"} })
	keys := map[string]bool{}
	for _, tenant := range []string{"eu", "", `a","42`, `a\`, "a\n", "ü🚀"} {
		rec, err := one.Route(wideRelation(), wideRow(tenant, "1"), rowtest.Source)
		require.NoError(t, err)
		require.Equal(t, tenant, string(rec.Key))
		rec, err = two.Route(wideRelation(), wideRow(tenant, "1"), rowtest.Source)
		require.NoError(t, err)
		var parts []string
		require.NoError(t, json.Unmarshal(rec.Key, &parts))
		require.Equal(t, []string{tenant, "42"}, parts)
		keys[string(rec.Key)] = true
	}
	require.Len(t, keys, 6, "no two of them are the same")
	rec, err := two.Route(wideRelation(), wideRow("eu", "1"), rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, `["eu","42"]`, string(rec.Key))

	row := wideRow("eu", "1")
	row[7] = pgoutput.Value{Kind: pgoutput.Null}
	_, err = two.Route(wideRelation(), row, rowtest.Source)
	require.Equal(t, router.NullKey, rowtest.Reason(t, err))
}

func TestAddedHeaders(t *testing.T) {
	r := formatRouter(t, func(c *Config) {
		c.StaticHeaders, c.ColumnHeaders = []string{"source=a=b", "empty="}, []string{"tenant", "event_version:v"}
	})
	row := wideRow("eu", "2")
	rec, err := r.Route(wideRelation(), row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, []string{"source=a=b", "empty=", "tenant=eu", "v=2"}, rowtest.HeaderTexts(rec.Headers)[3:7])
	require.Contains(t, rowtest.HeaderTexts(rec.Headers)[7], "traceparent=")

	row[7] = pgoutput.Value{Kind: pgoutput.Null}
	rec, err = r.Route(wideRelation(), row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "tenant", rowtest.HeaderTexts(rec.Headers)[5])

	row[7] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(strings.Repeat("x", router.MaxHeaderBytes))}
	_, err = r.Route(wideRelation(), row, rowtest.Source)
	require.Equal(t, router.HeadersTooLarge, rowtest.Reason(t, err))
}

func TestEnvelope(t *testing.T) {
	r := formatRouter(t, func(c *Config) { c.Format = FormatEnvelope })
	rec, err := r.Route(wideRelation(), wideRow("eu", "3"), rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, `{"eventId":"018f4d3c-0000-7000-8000-000000000001","eventType":"order_placed","eventVersion":3,`+
		`"aggregateType":"order",`+
		`"aggregateId":"42","occurredAt":"2026-11-21T08:17:00.123Z","traceId":"4bf92f3577b34da6a3ce929d0e0e4736",`+
		`"data":{"lines": [{"sku": "a-1", "quantity": 2}], "total": 12.50, "customer": "c-77"}}`, string(rec.Value))

	for version, want := range map[string]string{
		"1.2": `"1.2"`, "0": "0", "01": `"01"`, "12345678901234567890": `"12345678901234567890"`,
	} {
		rec, err = r.Route(wideRelation(), wideRow("eu", version), rowtest.Source)
		require.NoError(t, err)
		require.Contains(t, string(rec.Value), `"eventVersion":`+want+",")
	}
	rel, row := rowtest.Table(), plainRow()
	rel.Columns[4].TypeOID, row[4].Data, row[5] = layout.OIDBytea, []byte(`\x00ff`), pgoutput.Value{Kind: pgoutput.Null}
	rec, err = r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Contains(t, string(rec.Value), `"eventVersion":1,`)
	require.Contains(t, string(rec.Value), `"traceId":null,"data":"AP8="}`)

	rel = rowtest.Table()
	rel.Columns[4].TypeOID, row[4].Data = layout.OIDText, []byte("say \"hi\"")
	rec, err = r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Contains(t, string(rec.Value), `"data":"say \"hi\""}`)
	require.True(t, json.Valid(rec.Value))

	row[4] = pgoutput.Value{Kind: pgoutput.Null}
	rec, err = r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Nil(t, rec.Value)
}

func TestCloudEventsBinary(t *testing.T) {
	r := formatRouter(t, func(c *Config) {
		c.Format, c.CloudEvents.Extensions, c.CloudEvents.DataSchema = FormatCloudEventsBinary,
			[]string{"tenant", "event_version:v"}, "https://s.example/1"
	})
	row := wideRow("eu", "1")
	row[5] = pgoutput.Value{Kind: pgoutput.Null}
	for range 2 {
		rec, err := r.Route(wideRelation(), row, rowtest.Source)
		require.NoError(t, err)
		require.Equal(t, string(row[4].Data), string(rec.Value))
		require.Equal(t, []string{
			"ce_specversion=1.0", "ce_id=018f4d3c-0000-7000-8000-000000000001", "ce_source=/shop",
			"ce_type=order_placed", "ce_subject=42", "ce_time=2026-11-21T08:17:00.123Z",
			"ce_dataschema=https://s.example/1", "ce_tenant=eu", "ce_v=1", "content-type=application/json",
		}, rowtest.HeaderTexts(rec.Headers)[3:])
	}
	for _, headers := range []string{`{"ce_id": "x"}`, `{"content-type": "x"}`} {
		row[5] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(headers)}
		_, err := r.Route(wideRelation(), row, rowtest.Source)
		require.Equal(t, router.ReservedHeader, rowtest.Reason(t, err))
	}
	row[5], row[3] = pgoutput.Value{Kind: pgoutput.Null}, pgoutput.Value{Kind: pgoutput.Null}
	_, err := r.Route(wideRelation(), row, rowtest.Source)
	require.Equal(t, router.BadValue, rowtest.Reason(t, err))
}

func TestCloudEventsStructured(t *testing.T) {
	r := formatRouter(t, func(c *Config) {
		c.Format, c.CloudEvents.Extensions = FormatCloudEventsStructured, []string{"tenant"}
	})
	rec, err := r.Route(wideRelation(), wideRow("eu", "1"), rowtest.Source)
	require.NoError(t, err)
	const start = `{"specversion":"1.0","id":"018f4d3c-0000-7000-8000-000000000001","source":"/shop",` +
		`"type":"order_placed","subject":"42",` +
		`"time":"2026-11-21T08:17:00.123Z","datacontenttype":"application/json","tenant":"eu",`
	require.Equal(t, start+`"data":{"lines": [{"sku": "a-1", "quantity": 2}], "total": 12.50, "customer": "c-77"}}`,
		string(rec.Value))
	require.Equal(t, "content-type=application/cloudevents+json; charset=UTF-8",
		rowtest.HeaderTexts(rec.Headers)[len(rec.Headers)-1])

	rel, row := wideRelation(), wideRow("eu", "1")
	rel.Columns[4].TypeOID, row[4].Data = layout.OIDBytea, []byte(`\x00ff`)
	rec, err = r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, start+`"data_base64":"AP8="}`, string(rec.Value))

	rel, row = wideRelation(), wideRow("eu", "1")
	rel.Columns[4].TypeOID, row[4].Data = layout.OIDText, []byte(`no JSON`)
	_, err = r.Route(rel, row, rowtest.Source)
	require.Equal(t, router.BadValue, rowtest.Reason(t, err))

	r = formatRouter(t, func(c *Config) {
		c.Format, c.CloudEvents.DataContentType = FormatCloudEventsStructured, "text/plain"
	})
	rec, err = r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Contains(t, string(rec.Value), `"data":"no JSON"}`)
}

func TestRegistryFrame(t *testing.T) {
	rel, row := wideRelation(), wideRow("eu", "258")
	rel.Columns[4].TypeOID, row[4].Data = layout.OIDBytea, []byte(`\x00ff`)
	for format, want := range map[string]string{
		"avro": "\x00\x00\x00\x01\x02\x00\xff", "protobuf": "\x00\x00\x00\x01\x02\x00\x00\xff",
	} {
		r := formatRouter(t, func(c *Config) { c.Registry = Registry{SchemaIDColumn: "event_version", Format: format} })
		rec, err := r.Route(rel, row, rowtest.Source)
		require.NoError(t, err)
		require.Equal(t, want, string(rec.Value))

		row[4] = pgoutput.Value{Kind: pgoutput.Null}
		rec, err = r.Route(rel, row, rowtest.Source)
		require.NoError(t, err)
		require.Nil(t, rec.Value, "a tombstone stays one")
		row[4] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(`\x00ff`)}

		for _, id := range []string{"", "-1", "x", "2147483648"} {
			bad := wideRow("eu", id)
			bad[4] = row[4]
			_, err = r.Route(rel, bad, rowtest.Source)
			require.Equal(t, router.BadValue, rowtest.Reason(t, err), id)
		}
	}
}

func TestFormatsRefuseConfiguration(t *testing.T) {
	for part, change := range map[string]func(*Config){
		"router.format": func(c *Config) { c.Format = "xml" },
		"router.cloudevents.source": func(c *Config) {
			c.Format, c.CloudEvents.Source = FormatCloudEventsBinary, ""
		},
		"router.cloudevents.data_schema": func(c *Config) {
			c.Format, c.CloudEvents.DataSchema = FormatCloudEventsBinary, "x"
		},
		"router.cloudevents.extensions": func(c *Config) {
			c.Format, c.CloudEvents.Extensions = FormatCloudEventsBinary, []string{"tenant:Tenant"}
		},
		"\"time\" cannot name": func(c *Config) {
			c.Format, c.CloudEvents.Extensions = FormatCloudEventsBinary, []string{"tenant:time"}
		},
		"router.static_headers":           func(c *Config) { c.StaticHeaders = []string{"x"} },
		"\"id\" is reserved":              func(c *Config) { c.StaticHeaders = []string{"id=1"} },
		"\"a\" is reserved or used twice": func(c *Config) { c.StaticHeaders = []string{"a=1", "a=2"} },
		"router.column_headers":           func(c *Config) { c.ColumnHeaders = []string{"a:"} },
		"\"ce_x\" is reserved": func(c *Config) {
			c.Format, c.ColumnHeaders = FormatCloudEventsBinary, []string{"tenant:ce_x"}
		},
		"router.registry.format": func(c *Config) {
			c.Registry = Registry{SchemaIDColumn: "a", Format: "thrift"}
		},
		"router.registry.schema_id_column": func(c *Config) {
			c.Format, c.Registry.SchemaIDColumn = FormatEnvelope, "a"
		},
	} {
		cfg := Config{
			Columns: DefaultColumns(), Topic: DefaultTopic, CloudEvents: CloudEvents{Source: "/shop"},
			Registry: Registry{Format: "avro"},
		}
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, part)
		require.Equal(t, fault.Config, fault.KindOf(err))
	}
}
