package outbox

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// route sends an event through the connector's router as the row that Insert would write.
func route(t *testing.T, e Event) (*router.Record, error) {
	values, invalid := standard.row(&e, nil)
	require.Nil(t, invalid)
	return routeRow(t, values)
}

func routeRow(t *testing.T, values [7]*string) (*router.Record, error) {
	r, err := router.New(router.Config{Columns: router.DefaultColumns(), Topic: router.DefaultTopic})
	require.NoError(t, err)
	rel := &pgoutput.Relation{Namespace: "public", Name: "outbox"}
	var row pgoutput.Tuple
	for i, name := range []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "headers", "created_at"} {
		rel.Columns = append(rel.Columns, pgoutput.Column{Name: name})
		v := pgoutput.Value{Kind: pgoutput.Null}
		if values[i] != nil {
			v = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(*values[i])}
		}
		row = append(row, v)
	}
	return r.Route(rel, row, someSource())
}

// What this package accepts, the connector must be able to publish: the two don't share code, so the edges are tried
// on both.
func TestAcceptedEventsAreRoutable(t *testing.T) {
	accepted := map[string]func(*Event){
		"plain":              func(*Event) {},
		"no id":              func(e *Event) { e.ID = "" },
		"longest type":       func(e *Event) { e.AggregateType = strings.Repeat("x", maxAggregateType) },
		"every character":    func(e *Event) { e.AggregateType = "_aZ09.-_" },
		"any key":            func(e *Event) { e.AggregateID = "ä\n\" " },
		"tombstone":          func(e *Event) { e.Payload = nil },
		"most headers":       func(e *Event) { e.Headers = manyHeaders(maxHeaders, 0) },
		"largest headers":    func(e *Event) { e.Headers = manyHeaders(1, maxHeaderBytes-4) },
		"headers to escape":  func(e *Event) { e.Headers = map[string]string{"a\"\\😀<>": "\u2028\r\n\x01\"\\😀<&"} },
		"first timestamp":    func(e *Event) { e.Timestamp = time.Unix(0, 0) },
		"last timestamp":     func(e *Event) { e.Timestamp = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC) },
		"timestamp with ns":  func(e *Event) { e.Timestamp = time.Unix(1, 999999999) },
		"timestamp in India": func(e *Event) { e.Timestamp = time.Unix(1, 0).In(time.FixedZone("", 19800)) },
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
	rows := map[string]struct {
		column int
		text   *string
		event  string // of invalidEvents
	}{
		"path":             {1, str("../x"), "path"},
		"unicode":          {1, str("größe"), "unicode"},
		"internal":         {1, str("__consumer_offsets"), "internal"},
		"no type":          {1, str(""), "no aggregate type"},
		"reserved":         {5, str(`{"position": ""}`), "reserved header"},
		"no name":          {5, str(`{"": ""}`), "header without name"},
		"line end in name": {5, str(`{"a\r\nb": ""}`), "line end in name"},
	}
	events := invalidEvents()
	for name, test := range rows {
		t.Run(name, func(t *testing.T) {
			e := paid()
			values, invalid := standard.row(&e, nil)
			require.Nil(t, invalid)
			values[test.column] = test.text
			_, err := routeRow(t, values)
			var rowError *router.RowError
			require.ErrorAs(t, err, &rowError)
			require.Contains(t, events, test.event)
			events[test.event].change(&e)
			_, invalid = standard.row(&e, nil)
			require.NotNil(t, invalid)
		})
	}
	require.Equal(t, router.MaxHeaders, maxHeaders)
	require.Equal(t, router.MaxHeaderBytes, maxHeaderBytes)
}

func someSource() router.Source {
	return router.Source{Position: []byte("00000000000000a1-00000000"), CommitTime: time.Now()}
}
