package catalogue

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Names in the document are its own: texts of rows may have any characters, and two may become one name.
func TestAsyncAPI(t *testing.T) {
	at := time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC)
	c := Catalogue{Rows: 9, Events: []Event{
		{
			Type: "created", Topic: "orders", Table: "public.outbox", Rows: 4, Last: at, Keyed: true,
			Headers: []string{"id"},
		},
		{Type: "größer/#~1", Topic: "orders", Table: "public.outbox", Rows: 2, Last: at},
		{Type: "gr__er/#_1", Topic: "orders", Table: "public.outbox", Rows: 1, Last: at},
		{
			Topic: "orders", Table: "public.outbox", Rows: 1, Last: at, Schema: 7, Subject: "orders-value",
			Version: "latest",
		},
		{Type: "created", Topic: "events.orders>", Table: "public.outbox", Rows: 1, Last: at},
	}}
	d := c.AsyncAPI("Orders", "1", true)
	require.Len(t, d.Channels, 2)
	require.Equal(t, "events.orders>", d.Channels["events.orders_"].Address)
	require.Equal(t, "#/channels/events.orders_", d.Operations["send.events.orders_"].Channel.Ref)
	messages := d.Channels["orders"].Messages
	require.Len(t, messages, 4, "none replaces another")
	require.Equal(t, "größer/#~1", messages["gr__er___1"].Name)
	require.Equal(t, "gr__er/#_1", messages["gr__er___1.2"].Name)
	require.Contains(t, messages["event"].Summary, "Schema: orders-value, version latest (id 7).")
	text, err := json.Marshal(messages["created"])
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"created","title":"created",
		"summary":"4 rows of public.outbox, the last at 2026-12-01T02:03:04Z.",
		"headers":{"type":"object","properties":{"id":{}}},
		"bindings":{"kafka":{"key":{"type":"string"},"bindingVersion":"0.5.0"}}}`, string(text))
	require.Nil(t, c.AsyncAPI("Orders", "1", false).Channels["orders"].Messages["created"].Bindings)
}

func TestIdentifier(t *testing.T) {
	taken := map[string]bool{"a_b": true, "a_b.2": true}
	require.Equal(t, "a_b.3", identifier("a/b", func(id string) bool { return taken[id] }))
}
