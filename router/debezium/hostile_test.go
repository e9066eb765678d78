package debezium

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
)

// repeated writes n texts with commas between; format turns the number of each text into the text.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// nested is an object in an object in an object, each with a long name.
func nested(depth, name int, innermost string) string {
	open := `{"` + strings.Repeat("n", name) + `":`
	return strings.Repeat(open, depth) + innermost + strings.Repeat("}", depth)
}

// Payloads whose expansion would be far larger than they are make bad rows, in little time and memory; merely large or
// deep ones are expanded or passed on.
//
// Bug (router): An expanded payload with objects that had no member in common, or long names at great depth, took
// gigabytes and minutes. Cost: one row of 100 KB stopped the relay.
func TestExpansionIsBounded(t *testing.T) {
	wide := `{` + repeated(30_000, `"member%d":1`) + `}`
	for _, c := range []struct {
		name, payload string
		bad           bool
	}{
		{"objects without a member in common", `[` + repeated(30_000, `{"member%d":1}`) + `]`, true},
		{"the same a level deeper", `[` + repeated(30_000, `{"x":{"member%d":1}}`) + `]`, true},
		{"two wide objects", `[` + wide + `,` + wide + `]`, false},
		{"long names at great depth", nested(900, 1000, `{`+repeated(1000, `"o%d":{}`)+`}`), true},
		{"leaves at great depth", nested(50, 1000, `{`+repeated(30_000, `"l%d":1`)+`}`), false},
		{"deeper than Java reads", nested(5000, 1, `1`), false},
		{"deeper than any reader", strings.Repeat("[", 2_000_000), false},
		{"a number of a million digits", `{"a":` + strings.Repeat("9", 1_000_000) + `}`, true},
		{"a fraction of a million digits", `{"a":0.` + strings.Repeat("9", 1_000_000) + `}`, false},
		{"ten thousand members", `{` + repeated(10_000, `"m%d":"x"`) + `}`, false},
		{"empty objects", `{"a":[` + repeated(100_000, `{}`+"%.0d") + `]}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := debeziumRouter(t, func(d *Config) { d.ValueConverter, d.Expand.Enabled = "json_with_schema", true })
			row := debeziumRow()
			row[4].Data = []byte(c.payload)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := r.Route(debeziumRelation(), row, rowtest.Source)
			runtime.ReadMemStats(&after)
			// Ample for a busy machine with the race detector: without the bounds it would take hours.
			require.Less(t, time.Since(began), 5*time.Minute)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30))
			if c.bad {
				require.Equal(t, router.BadValue, rowtest.Reason(t, err))
				return
			}
			require.NoError(t, err)
		})
	}
}

// What an application writes into the tracing and the route column takes time and memory in proportion.
//
// Bug (router): Reading a tracing column took quadratic time in its length; long route values were kept, ten thousand
// of them. Cost: minutes for a row, out of memory.
func TestDebeziumHostileTexts(t *testing.T) {
	rel := debeziumRelation(pgoutput.Column{Name: "tracing", TypeOID: layout.OIDText, Modifier: -1})
	r := debeziumRouter(t, func(d *Config) {
		d.Columns.Tracing, d.TopicRegex, d.TopicReplacement = "tracing", "(.{0,5}).*", "t.$1"
	})
	for _, text := range []string{repeated(1_000_000, "k%d=v\n"), strings.Repeat("a\\\n", 1_000_000)} {
		_, err := r.Route(rel, debeziumRow(text), rowtest.Source)
		require.Equal(t, router.HeadersTooLarge, rowtest.Reason(t, err))
	}
	row := debeziumRow("a=b")
	row[1].Data = []byte(strings.Repeat("x", 10<<20))
	_, err := r.Route(rel, row, rowtest.Source)
	require.Equal(t, router.Unroutable, rowtest.Reason(t, err))

	row[1].Data = []byte(strings.Repeat("x", 60<<10))
	rec, err := r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "t.xxxxx", rec.Topic)
	require.Len(t, r.topics, 1, "long route values are not kept")
}

// An event in the dead-letter topic would be taken for a dead letter, or for the record of a retry.
func TestDebeziumSendsNoEventToTheDeadLetters(t *testing.T) {
	d := Default()
	d.TopicPrefix, d.TopicReplacement = "srv", "$1"
	d.DeadLetterTopic = "letters"
	r, err := New(d)
	require.NoError(t, err)
	row := debeziumRow()
	row[1].Data = []byte("letters")
	_, err = r.Route(debeziumRelation(), row, rowtest.Source)
	require.Equal(t, router.IllegalTopic, rowtest.Reason(t, err))
}

func TestMessageWithThePresetDebezium(t *testing.T) {
	d := Default()
	d.TopicPrefix, d.Additional, d.ContextHeaders = "shop", []string{"type:header:eventType"}, false
	r, err := New(d)
	require.NoError(t, err)
	rel, row, err := r.Message(&pgoutput.LogicalMessage{Prefix: "outbox", Content: []byte(
		`{"id":"e1","aggregate_type":"order","aggregate_id":"42","type":"paid","payload":{"n": 1}}`)})
	require.NoError(t, err)
	require.NoError(t, r.Prepare(rel))
	rec, err := r.Route(rel, row, router.Source{})
	require.NoError(t, err)
	require.Equal(t, []string{"outbox.event.order", "42", `{"n": 1}`}, []string{
		rec.Topic, string(rec.Key), string(rec.Value),
	})
	require.Equal(t, []router.Header{{Key: "id", Value: []byte("e1")}, {Key: "eventType", Value: []byte("paid")}},
		rec.Headers)
}
