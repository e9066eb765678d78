package outbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	preset "github.com/cdc-outbox/cdc-outbox/router/outbox"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// route sends an event through the connector's router as the row that Insert would write.
func route(t *testing.T, e outbox.Event) (*router.Record, error) {
	return routeRow(t, insertedRow(t, standard(t), e))
}

func routeRow(t *testing.T, values [7]*string) (*router.Record, error) {
	r, err := preset.New(preset.Config{Columns: preset.DefaultColumns(), Topic: preset.DefaultTopic})
	require.NoError(t, err)
	rel := &pgoutput.Relation{Namespace: "public", Name: "outbox"}
	var row pgoutput.Tuple
	columns := []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "headers", "created_at"}
	for i, name := range columns {
		rel.Columns = append(rel.Columns, pgoutput.Column{Name: name})
		v := pgoutput.Value{Kind: pgoutput.Null}
		if values[i] != nil {
			v = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(*values[i])}
		}
		row = append(row, v)
	}
	return r.Route(rel, row, someSource())
}

// What this package accepts, the connector must be able to publish: the two do not share code, so the edges are tried
// on both.
func TestAcceptedEventsAreRoutable(t *testing.T) {
	accepted := map[string]func(*outbox.Event){
		"plain":           func(*outbox.Event) {},
		"no id":           func(e *outbox.Event) { e.ID = "" },
		"longest type":    func(e *outbox.Event) { e.AggregateType = strings.Repeat("x", 200) },
		"every character": func(e *outbox.Event) { e.AggregateType = "_aZ09.-_" },
		"any key":         func(e *outbox.Event) { e.AggregateID = "ä\n\" " },
		"tombstone":       func(e *outbox.Event) { e.Payload = nil },
		"most headers":    func(e *outbox.Event) { e.Headers = manyHeaders(router.MaxHeaders, 0) },
		"largest headers": func(e *outbox.Event) { e.Headers = manyHeaders(1, router.MaxHeaderBytes-4) },
		"headers to escape": func(e *outbox.Event) {
			e.Headers = map[string]string{"a\"\\😀<>": "\u2028\r\n\x01\"\\😀<&"}
		},
		"first timestamp": func(e *outbox.Event) { e.Timestamp = time.Unix(0, 0) },
		"last timestamp": func(e *outbox.Event) {
			e.Timestamp = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
		},
		"timestamp with ns":  func(e *outbox.Event) { e.Timestamp = time.Unix(1, 999999999) },
		"timestamp in India": func(e *outbox.Event) { e.Timestamp = time.Unix(1, 0).In(time.FixedZone("", 19800)) },
	}
	for name, change := range accepted {
		t.Run(name, func(t *testing.T) {
			e := paid()
			change(&e)
			rec, err := route(t, e)
			require.NoError(t, err)
			require.Equal(t, e.AggregateType+".events", rec.Topic)
			require.Equal(t, e.AggregateID, string(rec.Key))
			require.Equal(t, e.Payload == nil, rec.Value == nil)
			require.Len(t, rec.Headers, 3+len(e.Headers))
			for _, h := range rec.Headers[3:] {
				require.Equal(t, e.Headers[h.Key], string(h.Value))
			}
			if !e.Timestamp.IsZero() {
				require.Equal(t, e.Timestamp.UnixMilli(), rec.Timestamp)
			}
		})
	}
}

// The other direction for the rules that only the connector can enforce on rows of others: what it refuses, this
// package refuses.
func TestUnroutableEventsAreRefused(t *testing.T) {
	str := func(s string) *string { return &s }
	tests := map[string]struct {
		column int
		text   *string
		change func(*outbox.Event)
	}{
		"path":     {1, str("../x"), func(e *outbox.Event) { e.AggregateType = "../x" }},
		"unicode":  {1, str("größe"), func(e *outbox.Event) { e.AggregateType = "größe" }},
		"internal": {1, str("__consumer_offsets"), func(e *outbox.Event) { e.AggregateType = "__consumer_offsets" }},
		"no type":  {1, str(""), func(e *outbox.Event) { e.AggregateType = "" }},
		"reserved": {
			5, str(`{"position": ""}`),
			func(e *outbox.Event) { e.Headers = map[string]string{"position": ""} },
		},
		"no name": {5, str(`{"": ""}`), func(e *outbox.Event) { e.Headers = map[string]string{"": ""} }},
		"line end in name": {
			5, str(`{"a\r\nb": ""}`),
			func(e *outbox.Event) { e.Headers = map[string]string{"a\r\nb": ""} },
		},
		"too many headers": {
			5, headerText(t, manyHeaders(router.MaxHeaders+1, 0)),
			func(e *outbox.Event) { e.Headers = manyHeaders(router.MaxHeaders+1, 0) },
		},
		"too large headers": {
			5, headerText(t, manyHeaders(1, router.MaxHeaderBytes-3)),
			func(e *outbox.Event) { e.Headers = manyHeaders(1, router.MaxHeaderBytes-3) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := paid()
			values := insertedRow(t, standard(t), e)
			values[test.column] = test.text
			_, err := routeRow(t, values)
			var rowError *router.RowError
			require.ErrorAs(t, err, &rowError)
			test.change(&e)
			var invalid *outbox.EventError
			require.ErrorAs(t, standard(t).Insert(t.Context(), &recorder{}, e), &invalid)
		})
	}
}

func headerText(t *testing.T, headers map[string]string) *string {
	b, err := json.Marshal(headers)
	require.NoError(t, err)
	text := string(b)
	return &text
}

func someSource() router.Source {
	return router.Source{Position: []byte("00000000000000a1-00000000"), CommitTime: time.Now()}
}
