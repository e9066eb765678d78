package outbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/encoding"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
)

const avroSchema = `{"type":"record","name":"Order","fields":[{"name":"order_id","type":"string"},
	{"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
	{"name":"no","type":"long"},{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[
		{"name":"sku","type":"string"},{"name":"amount","type":"int"}]}}}]}`

const protoSchema = `syntax = "proto3"; message Order { string order_id = 1; double total = 2; int64 no = 3;
	repeated Line lines = 4; message Line { string sku = 1; int32 amount = 2; } }`

const document = `{"no": 9007199254740993, "lines": [{"sku": "a-1", "amount": 2}, {"sku": "b-2", "amount": 1}], ` +
	`"total": 12.50, "order_id": "0190163d-8694-739b-aea5-966c26f8ad90"}`

// encodingRouter is a router that encodes payloads by a schema.
func encodingRouter(t testing.TB, format, kind, schema string) *Router {
	e, err := encoding.Compile(encoding.Source{Type: kind, Text: schema})
	require.NoError(t, err)
	return routerOf(t, format, e)
}

// copying is an encoder whose encoded form is the document.
type copying struct{ router.Encoder }

func (copying) Append(dst, _, document []byte) ([]byte, error) { return append(dst, document...), nil }

func routerOf(t testing.TB, format string, e router.Encoder) *Router {
	known := book{}
	known[router.UnresolvedSchema{Subject: "order.events-value", Version: router.LatestSchema}] = struct {
		router.Schema
		answer router.SchemaAnswer
	}{router.Schema{ID: 258, Encoder: e}, router.SchemaKnown}
	return formatRouter(t, func(c *Config) {
		c.Registry = Registry{Subject: "${topic}-value", Format: format, Schemas: known}
	})
}

func documentRow(document string) pgoutput.Tuple {
	row := wideRow("eu", "1")
	row[4].Data = []byte(document)
	return row
}

func TestPayloadIsEncoded(t *testing.T) {
	for format, c := range map[string]struct{ kind, schema, frame string }{
		"avro":     {"AVRO", avroSchema, "\x00\x00\x00\x01\x02"},
		"json":     {"JSON", `{"required":["no"]}`, "\x00\x00\x00\x01\x02"},
		"protobuf": {"PROTOBUF", protoSchema, "\x00\x00\x00\x01\x02\x00"},
	} {
		t.Run(format, func(t *testing.T) {
			r := encodingRouter(t, format, c.kind, c.schema)
			rec, err := r.Route(wideRelation(), documentRow(document), rowtest.Source)
			require.NoError(t, err)
			require.Equal(t, int32(258), rec.SchemaID)
			require.Equal(t, c.frame, string(rec.Value[:len(c.frame)]))
			decoded, err := rec.Encoder.JSON(rec.Value[5:])
			require.NoError(t, err)
			require.Contains(t, string(decoded), "9007199254740993")
			first := rec.Clone()

			_, err = r.Route(wideRelation(), documentRow(`{"no": "secret"}`), rowtest.Source)
			if format == "json" {
				require.NoError(t, err)
				_, err = r.Route(wideRelation(), documentRow(`{"x": "secret"}`), rowtest.Source)
			}
			require.Equal(t, router.PayloadDoesNotFit, rowtest.Reason(t, err))
			require.ErrorContains(t, err, "does not fit the schema with the id 258: $.")
			require.NotContains(t, err.Error(), "secret")

			tombstone := documentRow("")
			tombstone[4] = pgoutput.Value{Kind: pgoutput.Null}
			rec, err = r.Route(wideRelation(), tombstone, rowtest.Source)
			require.NoError(t, err)
			require.Nil(t, rec.Value)
			require.Nil(t, rec.Encoder)

			rec, err = r.Route(wideRelation(), documentRow(document), rowtest.Source)
			require.NoError(t, err)
			require.Equal(t, first.Value, rec.Value, "nothing of another row is left")
		})
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	r, rel, row := routerOf(t, "avro", copying{}), wideRelation(), documentRow(document)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := r.Route(rel, row, rowtest.Source); err != nil {
			t.Fatal(err)
		}
	}))
}

func BenchmarkEncode(b *testing.B) {
	for format, schema := range map[string][2]string{
		"none": {}, "avro": {"AVRO", avroSchema},
		"json":     {"JSON", `{"required":["no"],"properties":{"no":{"type":"integer"}}}`},
		"protobuf": {"PROTOBUF", protoSchema},
	} {
		b.Run(format, func(b *testing.B) {
			r := newRouter(b)
			if format != "none" {
				r = encodingRouter(b, format, schema[0], schema[1])
			}
			rel, row := wideRelation(), documentRow(document)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Route(rel, row, rowtest.Source); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
