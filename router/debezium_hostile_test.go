package router

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// repeated writes n texts, each made of its number, with commas between.
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
			r := debeziumRouter(t, func(d *Debezium) { d.ValueConverter, d.Expand.Enabled = "json_with_schema", true })
			row := debeziumRow()
			row[4].Data = []byte(c.payload)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := r.Route(debeziumRelation(), row, source)
			runtime.ReadMemStats(&after)
			require.Less(t, time.Since(began), 20*time.Second)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30))
			if c.bad {
				require.Equal(t, BadValue, reason(t, err))
				return
			}
			require.NoError(t, err)
		})
	}
}

// What an application writes into the tracing and the route column takes time and memory in proportion.
func TestDebeziumHostileTexts(t *testing.T) {
	rel := debeziumRelation(pgoutput.Column{Name: "tracing", TypeOID: oidText, Modifier: -1})
	r := debeziumRouter(t, func(d *Debezium) {
		d.Columns.Tracing, d.TopicRegex, d.TopicReplacement = "tracing", "(.{0,5}).*", "t.$1"
	})
	for _, text := range []string{repeated(1_000_000, "k%d=v\n"), strings.Repeat("a\\\n", 1_000_000)} {
		_, err := r.Route(rel, debeziumRow(text), source)
		require.Equal(t, HeadersTooLarge, reason(t, err))
	}
	row := debeziumRow("a=b")
	row[1].Data = []byte(strings.Repeat("x", 10<<20))
	_, err := r.Route(rel, row, source)
	require.Equal(t, Unroutable, reason(t, err))

	row[1].Data = []byte(strings.Repeat("x", 60<<10))
	rec, err := r.Route(rel, row, source)
	require.NoError(t, err)
	require.Equal(t, "t.xxxxx", rec.Topic)
	require.Len(t, r.debezium.topics, 1, "long route values aren't kept")
}

// An event in the topic of the dead letters would be taken for one of them, or for the word that one was published.
func TestNoEventLeadsToTheDeadLetters(t *testing.T) {
	r, err := New(Config{Columns: DefaultColumns(), Topic: "${aggregate_type}", DeadLetterTopic: "letters"})
	require.NoError(t, err)
	row := plainRow()
	for range 2 {
		row[1].Data = []byte("letters")
		_, err = r.Route(outboxRelation(), row, source)
		require.Equal(t, IllegalTopic, reason(t, err))
		row[1].Data = []byte("letters2")
		_, err = r.Route(outboxRelation(), row, source)
		require.NoError(t, err)
	}
	_, err = New(Config{Columns: DefaultColumns(), Topic: "letters", DeadLetterTopic: "letters"})
	require.ErrorContains(t, err, "router.topic")

	d := DefaultDebezium()
	d.TopicPrefix, d.TopicReplacement = "srv", "$1"
	r, err = New(Config{Debezium: d, DeadLetterTopic: "letters"})
	require.NoError(t, err)
	row = debeziumRow()
	row[1].Data = []byte("letters")
	_, err = r.Route(debeziumRelation(), row, source)
	require.Equal(t, IllegalTopic, reason(t, err))
}
