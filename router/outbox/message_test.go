package outbox

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/stretchr/testify/require"
)

func messageOf(r *Router, content []byte) (*pgoutput.Relation, pgoutput.Tuple, error) {
	return r.Message(&pgoutput.LogicalMessage{Prefix: "outbox", Content: content})
}

func messageRouter(t *testing.T, change func(*Config)) *Router {
	t.Helper()
	cfg := Config{Columns: DefaultColumns(), Topic: DefaultTopic}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

func TestMessageBecomesARecord(t *testing.T) {
	commit := time.UnixMilli(5000)
	for name, c := range map[string]struct {
		content   string
		value     string
		tombstone bool
		headers   string
		timestamp int64
	}{
		"payload as written": {
			`{"id": "e1", "aggregate_type": "order", "aggregate_id": 42, "type": "paid", "payload":  {"a" : 1.50,` +
				`"a":[1, 2], "u":"\ud800\u0000"} }`,
			`{"a" : 1.50,"a":[1, 2], "u":"\ud800\u0000"}`, false, "", 5000,
		},
		"a string keeps its quotes": {
			`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload":"x"}`, `"x"`, false, "",
			5000,
		},
		"text": {
			`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload_text":"x\n\"\u00e9"}`,
			"x\n\"é", false, "", 5000,
		},
		"empty text": {
			`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload_text":""}`, "", false, "",
			5000,
		},
		"bytes": {
			`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload_base64":"AAH/\nXHg="}`,
			"\x00\x01\xff\\x", false, "", 5000,
		},
		"null": {
			`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload":null}`, "", true, "", 5000,
		},
		"absent": {`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid"}`, "", true, "", 5000},
		"headers and time": {
			`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload":1,"headers":{"h":"v"},` +
				`"timestamp":"1970-01-01T00:00:01.250Z"}`,
			"1", false, "v", 1250,
		},
		"to_json's time": {
			`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload":1,` +
				`"timestamp":"1970-01-01T02:00:01.25+02:00"}`, "1", false, "", 1250,
		},
		"unknown members": {
			`{"other":{"\ud800":[]},"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid",` +
				`"payload":1,"other":2}`, "1", false, "", 5000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := messageRouter(t, nil)
			for range 2 { // the second time with what the first left behind
				rel, row, err := messageOf(r, []byte(c.content))
				require.NoError(t, err)
				rec, err := r.Route(rel, row, router.Source{Position: []byte("p"), CommitTime: commit})
				require.NoError(t, err)
				require.Equal(t, "order.events", rec.Topic)
				require.Equal(t, "42", string(rec.Key))
				require.Equal(t, c.tombstone, rec.Value == nil)
				require.Equal(t, c.value, string(rec.Value))
				require.Equal(t, c.timestamp, rec.Timestamp)
				require.Equal(t, "e1", string(rec.Headers[0].Value))
				require.Equal(t, "paid", string(rec.Headers[1].Value))
				if c.headers != "" {
					require.Equal(t, c.headers, string(rec.Headers[3].Value))
				}
			}
		})
	}
}

func TestMessageServesTheColumnsOfTheConfiguration(t *testing.T) {
	r := messageRouter(t, func(c *Config) {
		c.Columns.AggregateType, c.Columns.Payload = "kind", "body"
		c.Topic, c.KeyColumns, c.ColumnHeaders = "${column:region}.${aggregate_type}",
			[]string{"tenant", "aggregate_id"}, []string{"version:v"}
	})
	rel, row, err := messageOf(r, []byte(`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid",`+
		`"payload":{},"region":"eu","tenant":7}`))
	require.NoError(t, err)
	rec, err := r.Route(rel, row, router.Source{})
	require.NoError(t, err)
	require.Equal(t, "eu.order", rec.Topic)
	require.JSONEq(t, `["7","42"]`, string(rec.Key))
	require.Equal(t, "{}", string(rec.Value))
	require.Equal(t, "v", rec.Headers[len(rec.Headers)-1].Key)
	require.Nil(t, rec.Headers[len(rec.Headers)-1].Value)
}

func TestMessageThatIsNone(t *testing.T) {
	for _, content := range []string{
		``, `null`, `[]`, `"x"`, `{"id":"e1"`, `{"id":"e1"} x`, `{"id":"e1",}`, `{"id":"e1","id":"e2"}`,
		`{"id":"e1","payload":1,"payload_text":"x"}`, `{"id":"e1","payload_text":1}`,
		`{"id":"e1","payload_base64":"*"}`, `{"id":"e1","type":"\ud800"}`, `{"id":"e1","payload":{"a":}}`,
		"{\"id\":\"e1\",\"payload\":\"\x01\"}",
		`{"id":"e1","payload":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "\xff\xfe",
		`{"id":"e1","payload":"x\`,
	} {
		r := messageRouter(t, nil)
		rel, row, err := messageOf(r, []byte(content))
		var bad *router.RowError
		require.True(t, errors.As(err, &bad), content)
		require.Equal(t, router.BadMessage, bad.Reason)
		require.NotContains(t, bad.Error(), "e2")
		require.Equal(t, content, string(row[rel.Column("payload")].Data), "for a dead letter")
		_, err = r.Route(rel, row, router.Source{})
		require.Error(t, err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload":{"a":[1,"\u00e9"]},` +
		`"headers":{},"timestamp":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"payload_base64":"AAEC","payload_text":""}`))
	r, err := New(Config{Columns: DefaultColumns(), Topic: DefaultTopic})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		rel, row, err := messageOf(r, content)
		if len(rel.Columns) != len(row) {
			t.Fatal("a row that is not its relation's")
		}
		if err == nil {
			_, _ = r.Route(rel, row, router.Source{})
		}
	})
}

func TestMessageAllocatesNothing(t *testing.T) {
	r := messageRouter(t, nil)
	content := []byte(`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload":{"a":[1,` +
		`"\u00e9"]},"headers":{"a":"b"},"timestamp":"2026-01-01T00:00:00Z"}`)
	l := &pgoutput.LogicalMessage{Prefix: "outbox", Content: content}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		rel, row, err := r.Message(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Route(rel, row, router.Source{Position: content[:1]}); err != nil {
			t.Fatal(err)
		}
	}))
}

// A message that was not received as a whole is too large, and its letter does not have an empty payload.
func TestMessageThatWasLeftOut(t *testing.T) {
	r := messageRouter(t, nil)
	rel, row, err := r.Message(&pgoutput.LogicalMessage{Prefix: "outbox", Cut: 900_000_000})
	var bad *router.RowError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, router.TooLarge, bad.Reason)
	require.Equal(t, `table pg_logical_emit_message.outbox: a value of 900000000 bytes was not received, because its `+
		`row is longer than window.row (too_large)`, bad.Error())
	require.Contains(t, row, pgoutput.Value{Kind: pgoutput.Cut, Size: 900_000_000})
	require.Equal(t, "outbox", rel.Name)
}

func TestRowWithAValueThatWasLeftOut(t *testing.T) {
	r := messageRouter(t, nil)
	rel, row, err := messageOf(r, []byte(`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid",`+
		`"payload":{},"other":1}`))
	require.NoError(t, err)
	require.NoError(t, r.Prepare(rel))
	row[rel.Column("payload")] = pgoutput.Value{Kind: pgoutput.Cut, Size: 100_000_000}
	_, err = r.Route(rel, row, router.Source{})
	var bad *router.RowError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, []any{router.TooLarge, "payload", "e1"}, []any{bad.Reason, bad.Column, bad.EventID})

	// A column that is not part of the record may be of any length.
	wide := *rel
	wide.Columns = append(slices.Clone(rel.Columns), pgoutput.Column{Name: "blob", TypeOID: 17})
	_, row, err = messageOf(r, []byte(`{"id":"e1","aggregate_type":"order","aggregate_id":"42","payload":{"n":1}}`))
	require.NoError(t, err)
	require.NoError(t, r.Prepare(&wide))
	rec, err := r.Route(&wide, append(row, pgoutput.Value{Kind: pgoutput.Cut, Size: 100_000_000}), router.Source{})
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(rec.Value))
}
