package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const someID = "018f4d3c-0000-7000-8000-000000000001"

func paid() Event {
	return Event{
		ID: someID, AggregateType: "order", AggregateID: "42", Type: "order_paid", Payload: map[string]int{"total": 12},
	}
}

func manyHeaders(n, bytes int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("h%03d", i)] = strings.Repeat("x", bytes)
	}
	return m
}

// invalidEvents are refused.
func invalidEvents() map[string]struct {
	field  string
	change func(*Event)
} {
	return map[string]struct {
		field  string
		change func(*Event)
	}{
		"id":                    {"ID", func(e *Event) { e.ID = "42" }},
		"id in braces":          {"ID", func(e *Event) { e.ID = "{018f4d3c-0000-7000-8000-00000000000}" }},
		"no aggregate type":     {"AggregateType", func(e *Event) { e.AggregateType = "" }},
		"path":                  {"AggregateType", func(e *Event) { e.AggregateType = "../x" }},
		"dots":                  {"AggregateType", func(e *Event) { e.AggregateType = ".." }},
		"long":                  {"AggregateType", func(e *Event) { e.AggregateType = strings.Repeat("x", 201) }},
		"unicode":               {"AggregateType", func(e *Event) { e.AggregateType = "größe" }},
		"internal":              {"AggregateType", func(e *Event) { e.AggregateType = "__consumer_offsets" }},
		"no aggregate id":       {"AggregateID", func(e *Event) { e.AggregateID = "" }},
		"aggregate id with NUL": {"AggregateID", func(e *Event) { e.AggregateID = "a\x00" }},
		"no type":               {"Type", func(e *Event) { e.Type = "" }},
		"type not UTF-8":        {"Type", func(e *Event) { e.Type = "\xff" }},
		"payload no JSON":       {"Payload", func(e *Event) { e.Payload = []byte("{") }},
		"payload empty":         {"Payload", func(e *Event) { e.Payload = []byte{} }},
		"payload a channel":     {"Payload", func(e *Event) { e.Payload = make(chan int) }},
		"reserved header":       {"Headers", func(e *Event) { e.Headers = map[string]string{"position": ""} }},
		"header without name":   {"Headers", func(e *Event) { e.Headers = map[string]string{"": ""} }},
		"line end in name":      {"Headers", func(e *Event) { e.Headers = map[string]string{"a\r\nb": ""} }},
		"NUL in value":          {"Headers", func(e *Event) { e.Headers = map[string]string{"a": "\x00"} }},
		"value not UTF-8":       {"Headers", func(e *Event) { e.Headers = map[string]string{"a": "\xff"} }},
		"too many headers":      {"Headers", func(e *Event) { e.Headers = manyHeaders(257, 0) }},
		"too large headers":     {"Headers", func(e *Event) { e.Headers = manyHeaders(1, 64<<10-3) }},
		"before 1970":           {"Timestamp", func(e *Event) { e.Timestamp = time.Unix(-1, 0) }},
		"after 9999": {"Timestamp", func(e *Event) {
			e.Timestamp = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		}},
	}
}

func TestInvalidEvents(t *testing.T) {
	for name, test := range invalidEvents() {
		t.Run(name, func(t *testing.T) {
			bad := paid()
			test.change(&bad)
			_, err := standard.arguments(t.Context(), []Event{paid(), bad})
			var e *EventError
			require.ErrorAs(t, err, &e)
			require.Equal(t, test.field, e.Field)
			require.Equal(t, 1, e.Index)
			require.ErrorContains(t, err, "event 1: "+test.field)
		})
	}
}

func TestPayloadText(t *testing.T) {
	type order struct {
		Total json.Number `json:"total"`
	}
	const null = "<NULL>"
	tests := []struct {
		typ     PayloadType
		payload any
		want    string // empty: refused
	}{
		{JSONB, nil, null},
		{JSONB, []byte(nil), null},
		{JSON, json.RawMessage(nil), null},
		{JSONB, order{"12.50"}, `{"total":12.50}`},
		{JSONB, (*order)(nil), "null"},
		{JSONB, "text", `"text"`},
		{JSON, json.RawMessage(`{"a" : 1}`), `{"a" : 1}`},
		{JSON, []byte(`{"a" : 1`), ""},
		{JSONB, math.Inf(1), ""},
		{Text, "text", "text"},
		{Text, "", ""},
		{Text, []byte("{"), "{"},
		{Text, order{"1"}, `{"total":1}`},
		{Text, "a\x00", ""},
		{Text, []byte{0xff}, ""},
		{Bytea, []byte{0, 0xff}, `\x00ff`},
		{Bytea, []byte{}, `\x`},
		{Bytea, "", `\x`},
		{Bytea, nil, null},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %T %v", test.typ, test.payload, test.payload), func(t *testing.T) {
			text, err := test.typ.text(test.payload)
			switch {
			case test.want == "" && test.payload != "":
				require.NotNil(t, err)
			case test.want == null:
				require.Nil(t, err)
				require.Nil(t, text)
			default:
				require.Nil(t, err)
				require.Equal(t, test.want, *text)
			}
		})
	}
}

func TestHeadersOfTheContext(t *testing.T) {
	type key struct{}
	o, err := New(Options{Headers: func(ctx context.Context) map[string]string {
		return map[string]string{"traceparent": ctx.Value(key{}).(string), "tenant": "from the context"}
	}})
	require.NoError(t, err)
	e := paid()
	e.Headers = map[string]string{"tenant": `"t"`}
	args, err := o.arguments(context.WithValue(t.Context(), key{}, "00-ab"), []Event{e})
	require.NoError(t, err)
	require.Equal(t, `{"{\"tenant\":\"\\\"t\\\"\",\"traceparent\":\"00-ab\"}"}`, args[5])
	require.Equal(t, map[string]string{"tenant": `"t"`}, e.Headers, "the caller's map is left alone")
}

func TestNewRefuses(t *testing.T) {
	for _, opts := range []Options{{Payload: "xml"}, {Table: strings.Repeat("t", 64)}, {Schema: "a\x00"}} {
		_, err := New(opts)
		require.Error(t, err)
		_, err = Schema(opts)
		require.Error(t, err)
	}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	before := time.Now().UnixMilli()
	for range 1000 {
		id := NewID()
		require.True(t, isUUID(id), id)
		require.False(t, seen[id])
		seen[id] = true
		require.Equal(t, byte('7'), id[14], "version")
		require.Contains(t, "89ab", id[19:20], "variant")
		var ms int64
		_, err := fmt.Sscanf(id[:8]+id[9:13], "%x", &ms)
		require.NoError(t, err)
		require.GreaterOrEqual(t, ms, before)
		require.LessOrEqual(t, ms, time.Now().UnixMilli())
	}
}

func TestIndexName(t *testing.T) {
	require.Equal(t, "outbox_created_at_idx", Options{Table: "outbox"}.index())
	long := Options{Table: strings.Repeat("ä", 31)}.index()
	require.Equal(t, strings.Repeat("ä", 24)+"_created_at_idx", long)
	require.LessOrEqual(t, len(long), maxIdentifier)
}

// The ids of Postgres' uuid_generate_v5, and of every other library.
func TestDerivedID(t *testing.T) {
	// uuid_generate_v5(uuid_ns_dns(), 'www.example.com')
	const dns = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	require.Equal(t, "2ed6657d-e927-568b-95e1-2665a8aea6a2", DerivedID(dns, "www.example.com"))
	require.Equal(t, DerivedID(dns, "a"), DerivedID(strings.ToUpper(dns), "a"))
	seen := map[string]bool{}
	for _, cause := range []string{dns, "", "order/7", "order/7\x00a"} {
		for _, name := range []string{"a", "b", ""} {
			id := DerivedID(cause, name)
			require.True(t, isUUID(id), id)
			require.False(t, seen[id], "%q %q", cause, name)
			seen[id] = true
		}
	}
}
