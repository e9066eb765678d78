package outbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
)

func plainRow() pgoutput.Tuple {
	return rowtest.Texts("018f4d3c-0000-7000-8000-000000000001", "order", "42", "order_placed",
		`{"lines": [{"sku": "a-1", "quantity": 2}], "total": 12.50, "customer": "c-77"}`,
		`{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`, "2026-11-21 08:17:00.123456+00")
}

func newRouter(t testing.TB) *Router {
	r, err := New(Config{Columns: DefaultColumns(), Topic: DefaultTopic})
	require.NoError(t, err)
	return r
}

func TestNewReportsEveryProblem(t *testing.T) {
	_, err := New(Config{Topic: "${nope}", Columns: Columns{ID: "id"}})
	require.Equal(t, fault.Config, fault.KindOf(err))
	for _, part := range []string{"aggregate_id", "payload", "${nope}"} {
		require.ErrorContains(t, err, part)
	}
}

func TestTemplates(t *testing.T) {
	good := []string{
		"${aggregate_type}.events", "${schema}.${table}", "outbox.events", "${type}", "a${aggregate_id}b${type}",
	}
	for _, template := range good {
		_, err := newTopics(template)
		require.NoError(t, err, template)
	}
	bad := []string{
		"", ".", "..", "__x", "__${type}", "a b", "a/${type}", "${type", "${id}", "${payload}", "${}", "$type", "}",
		strings.Repeat("a", 250), strings.Repeat("a", 249) + "${type}",
	}
	for _, template := range bad {
		_, err := newTopics(template)
		require.Error(t, err, template)
		var f *fault.Error
		require.True(t, errors.As(err, &f) && f.Kind == fault.Config && f.Next != "", template)
	}
}

// A table without types: the topic is the table's, and no record has a header type.
func TestTablesWithoutTypes(t *testing.T) {
	columns := DefaultColumns()
	columns.AggregateType, columns.Type = "", ""
	r, err := New(Config{Columns: columns, Topic: "${schema}.${table}"})
	require.NoError(t, err)
	for _, n := range r.needs {
		require.NotEmpty(t, n.Column)
	}
	rel, row := rowtest.Table(), plainRow()
	rel.Namespace, rel.Name = "shop", "outbox"
	rec, err := r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "shop.outbox", rec.Topic)
	for _, h := range rec.Headers {
		require.NotEqual(t, router.HeaderType, h.Key)
	}
	rel = &pgoutput.Relation{OID: 7, Namespace: "shop", Name: "out box", Columns: rel.Columns}
	_, err = r.Route(rel, row, rowtest.Source)
	var bad *router.RowError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, router.IllegalTopic, bad.Reason)
	require.Empty(t, bad.Column)

	for topic, format := range map[string]string{
		"${aggregate_type}.events": FormatPayload, "${type}": FormatPayload, "t": FormatEnvelope,
	} {
		_, err := New(Config{Columns: columns, Topic: topic, Format: format})
		require.Equal(t, fault.Config, fault.KindOf(err), topic)
	}
}

func TestCheckTopic(t *testing.T) {
	for _, name := range []string{"a", "_a", "a__b", "...", "A-z_0.9", strings.Repeat("x", 249)} {
		require.NoError(t, router.CheckTopic(name), name)
	}
	for _, name := range []string{"", ".", "..", "__a", "a b", "a\x00", "ä", "a/b", strings.Repeat("x", 250), "\xff"} {
		require.Error(t, router.CheckTopic(name), name)
	}
}

func TestMissingColumns(t *testing.T) {
	for _, name := range []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"} {
		rel, row := rowtest.Table(), plainRow()
		rel.Columns[rel.Column(name)].Name = "renamed"
		_, err := newRouter(t).Route(rel, row, rowtest.Source)
		var e *router.RowError
		require.ErrorAs(t, err, &e)
		require.Equal(t, router.MissingColumn, e.Reason)
		require.Equal(t, name, e.Column)
		require.Equal(t, "public.outbox", e.Table)
		require.Equal(t, name == "id", e.EventID == "")
	}
	for _, name := range []string{"headers", "created_at"} {
		rel := rowtest.Table()
		rel.Columns[rel.Column(name)].Name = "renamed"
		_, err := newRouter(t).Route(rel, plainRow(), rowtest.Source)
		require.NoError(t, err, name)
	}
}

// A new *Relation means that columns may have moved; the old layout must not be used for the new rows, nor the new
// one for rows of another table.
func TestLayoutFollowsTheRelation(t *testing.T) {
	r := newRouter(t)
	first := rowtest.Table()
	rec, err := r.Route(first, plainRow(), rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "42", string(rec.Key))

	moved := rowtest.Table()
	moved.Columns[1], moved.Columns[2] = moved.Columns[2], moved.Columns[1]
	row := plainRow()
	row[1], row[2] = row[2], row[1]
	rec, err = r.Route(moved, row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "order.events", rec.Topic)
	require.Len(t, r.layouts, 1, "the old layout is dropped")

	other := rowtest.Table()
	other.OID++
	for range 3 {
		_, err = r.Route(other, plainRow(), rowtest.Source)
		require.NoError(t, err)
		rec, err = r.Route(moved, row, rowtest.Source)
		require.NoError(t, err)
		require.Equal(t, "order.events", rec.Topic)
	}
	require.Len(t, r.layouts, 2)
}

// The number of a topic is the same for each of its rows, and another topic has another.
func TestTopicsHaveNumbers(t *testing.T) {
	r := newRouter(t)
	row := plainRow()
	numbers := map[string]uint32{}
	taken := map[uint32]bool{}
	require.EqualValues(t, 64, unsafe.Sizeof(recentTopic{}), "a line of the cache")
	for i := range 3 * recentTopics {
		n := i % (recentTopics + 10)
		row[1].Data = fmt.Appendf(nil, "%s%d", strings.Repeat("t", 1+n%50), n)
		rec, err := r.Route(rowtest.Table(), row, rowtest.Source)
		require.NoError(t, err)
		require.Equal(t, string(row[1].Data)+".events", rec.Topic)
		if n, ok := numbers[rec.Topic]; ok {
			require.Equal(t, n, rec.TopicNumber, rec.Topic)
			continue
		}
		require.Positive(t, rec.TopicNumber)
		require.False(t, taken[rec.TopicNumber], rec.Topic)
		numbers[rec.Topic], taken[rec.TopicNumber] = rec.TopicNumber, true
	}
}

func TestCachesAreBounded(t *testing.T) {
	r := newRouter(t)
	row := plainRow()
	for i := range layout.MaxTopics + 10 {
		row[1].Data = fmt.Appendf(nil, "t%d", i)
		row[5].Data = fmt.Appendf(nil, `{"h%d": 1}`, i)
		rec, err := r.Route(rowtest.Table(), row, rowtest.Source)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("t%d.events", i), rec.Topic)
		require.Equal(t, fmt.Sprintf("h%d", i), rec.Headers[3].Key)
	}
	require.LessOrEqual(t, len(r.topics.seen), layout.MaxTopics)
	require.LessOrEqual(t, len(r.headers.names), maxHeaderNames)
	for i := range uint32(layout.MaxLayouts + 10) {
		rel := rowtest.Table()
		rel.OID = i
		_, err := r.Route(rel, row, rowtest.Source)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(r.layouts), layout.MaxLayouts)
}

func TestKindsOfValues(t *testing.T) {
	r := newRouter(t)
	rel := rowtest.Table()

	row := plainRow()
	row[4] = pgoutput.Value{Kind: pgoutput.Unchanged}
	_, err := r.Route(rel, row, rowtest.Source)
	require.Equal(t, router.UnchangedValue, rowtest.Reason(t, err))

	row[4] = pgoutput.Value{Kind: pgoutput.Binary, Data: []byte("\x01{}")}
	_, err = r.Route(rel, row, rowtest.Source)
	require.Equal(t, router.BinaryValue, rowtest.Reason(t, err), "binary jsonb starts with a version byte")

	row[4] = pgoutput.Value{Kind: '?', Data: []byte("x")}
	_, err = r.Route(rel, row, rowtest.Source)
	require.Equal(t, router.MalformedRow, rowtest.Reason(t, err))

	row[4] = pgoutput.Value{Kind: pgoutput.Text}
	rec, err := r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.NotNil(t, rec.Value, "empty text is not NULL")

	_, err = r.Route(rel, row[:6], rowtest.Source)
	require.Equal(t, router.MalformedRow, rowtest.Reason(t, err))

	raw := rowtest.Table()
	raw.Columns[4].TypeOID = layout.OIDBytea
	row[4] = pgoutput.Value{Kind: pgoutput.Binary, Data: []byte{0, 1, '\\'}}
	rec, err = r.Route(raw, row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, '\\'}, rec.Value)
}

func TestHeaderLimits(t *testing.T) {
	r := newRouter(t)
	row := plainRow()
	members := func(n int, value string) []byte {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"h%03d": "%s"`, i, value)
		}
		return []byte("{" + strings.Join(list, ",") + "}")
	}
	row[5].Data = members(router.MaxHeaders, "")
	rec, err := r.Route(rowtest.Table(), row, rowtest.Source)
	require.NoError(t, err)
	require.Len(t, rec.Headers, 3+router.MaxHeaders)

	row[5].Data = members(router.MaxHeaders+1, "")
	_, err = r.Route(rowtest.Table(), row, rowtest.Source)
	require.Equal(t, router.HeadersTooLarge, rowtest.Reason(t, err))

	row[5].Data = members(1, strings.Repeat("x", router.MaxHeaderBytes-4))
	_, err = r.Route(rowtest.Table(), row, rowtest.Source)
	require.NoError(t, err)

	row[5].Data = members(1, strings.Repeat("x", router.MaxHeaderBytes-3))
	_, err = r.Route(rowtest.Table(), row, rowtest.Source)
	require.Equal(t, router.HeadersTooLarge, rowtest.Reason(t, err))

	row[5].Data = []byte(`{"a": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`)
	_, err = r.Route(rowtest.Table(), row, rowtest.Source)
	require.Equal(t, router.BadHeaders, rowtest.Reason(t, err))
}

// Whatever is wrong with a row, nothing of its payload, key or headers may get into the error.
func TestErrorsHoldNoData(t *testing.T) {
	const canary = "c4n4ry"
	rows := map[string]func(pgoutput.Tuple){
		"topic":     func(row pgoutput.Tuple) { row[1].Data = []byte(canary + " ") },
		"headers":   func(row pgoutput.Tuple) { row[5].Data = []byte(`{"a": "` + canary) },
		"control":   func(row pgoutput.Tuple) { row[5].Data = []byte(`{"` + canary + `\u0001": 1}`) },
		"timestamp": func(row pgoutput.Tuple) { row[6].Data = []byte(canary) },
		"key":       func(row pgoutput.Tuple) { row[2] = pgoutput.Value{Kind: pgoutput.Null} },
	}
	for name, change := range rows {
		t.Run(name, func(t *testing.T) {
			row := plainRow()
			row[4].Data = []byte(canary)
			change(row)
			_, err := newRouter(t).Route(rowtest.Table(), row, rowtest.Source)
			var e *router.RowError
			require.ErrorAs(t, err, &e)
			require.NotContains(t, fmt.Sprintf("%+v %s", *e, e.Error()), canary)
		})
	}
}

func TestErrorText(t *testing.T) {
	row := plainRow()
	row[0].Data = []byte("\n" + strings.Repeat("ä", 40))
	row[1].Data = []byte("a/b")
	_, err := newRouter(t).Route(rowtest.Table(), row, rowtest.Source)
	require.EqualError(t, err, `table public.outbox, event "\n`+strings.Repeat("ä", 31)+`…", column "aggregate_type": `+
		`a topic name consists of letters a-z and A-Z, digits, '.', '_' and '-', and cannot hold U+002F at byte 1 `+
		`(illegal_topic)`)
}

func TestRouteAllocatesNothing(t *testing.T) {
	r := newRouter(t)
	rel, raw := rowtest.Table(), rowtest.Table()
	raw.OID, raw.Columns[4].TypeOID = 1, layout.OIDBytea
	row, rawRow := plainRow(), plainRow()
	row[5].Data = []byte(`{"a": "x\ty", "b": "\ud83d\ude00", "c": {"d": "\u0041"}, "e": null}`)
	rawRow[4].Data = []byte(`\x` + strings.Repeat("00ff", 500))
	route := func() {
		if _, err := r.Route(rel, row, rowtest.Source); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Route(raw, rawRow, rowtest.Source); err != nil {
			t.Fatal(err)
		}
	}
	route()
	require.Zero(t, testing.AllocsPerRun(1000, route))
	require.Less(t, cap(r.headers.object.Scratch), 1000, "buffers do not grow from row to row")
}

func BenchmarkRoute(b *testing.B) {
	benchmarks := map[string]func(*pgoutput.Relation, pgoutput.Tuple){
		"plain": func(*pgoutput.Relation, pgoutput.Tuple) {},
		"headers": func(_ *pgoutput.Relation, row pgoutput.Tuple) {
			row[5].Data = []byte(`{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ` +
				`"tenant": "a\u00e9", "n": 1, "o": {"x": [1, 2]}}`)
		},
		"bytea": func(rel *pgoutput.Relation, row pgoutput.Tuple) {
			rel.Columns[4].TypeOID = layout.OIDBytea
			row[4].Data = []byte(`\x` + strings.Repeat("00ff", 80))
		},
	}
	for name, change := range benchmarks {
		b.Run(name, func(b *testing.B) {
			r, rel, row := newRouter(b), rowtest.Table(), plainRow()
			change(rel, row)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Route(rel, row, rowtest.Source); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestTopicsAreRenamed(t *testing.T) {
	for value, c := range map[string]struct{ regex, to, want string }{
		"/queue/orders":         {"^/queue/", "", "orders"},
		"kafka://topic/orders":  {`^kafka://topic/(.*)$`, "${1}.events", "orders.events"},
		"com.acme.OrderPlaced":  {`^.*\.`, "", "OrderPlaced"},
		"a/b/c":                 {"/", ".", "a.b.c"},
		"orders":                {"^x", "y", "orders"},
		"rabbitmq://host/queue": {"^/", "", ""},
	} {
		cfg := Config{Columns: DefaultColumns(), Topic: "${aggregate_type}"}
		cfg.TopicRegex, cfg.TopicReplacement = c.regex, c.to
		r, err := New(cfg)
		require.NoError(t, err)
		row := plainRow()
		row[1].Data = []byte(value)
		for range 2 { // the second time from the cache
			rec, err := r.Route(rowtest.Table(), row, rowtest.Source)
			if c.want == "" {
				require.Equal(t, router.IllegalTopic, rowtest.Reason(t, err))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.want, rec.Topic)
			require.Equal(t, c.want, cfg.Renamed()(value))
		}
	}
	for name, cfg := range map[string]Config{
		"expression":  {Topic: "t", TopicRegex: "("},
		"replacement": {Topic: "t", TopicReplacement: "x"},
		"letters":     {Topic: "events", TopicRegex: "^events$", TopicReplacement: "dead", DeadLetterTopic: "dead"},
	} {
		cfg.Columns = DefaultColumns()
		_, err := New(cfg)
		require.Equal(t, fault.Config, fault.KindOf(err), name)
	}
}

func TestTimestampUnits(t *testing.T) {
	for name, c := range map[string]struct {
		unit, text string
		want       int64 // -1: a bad row
	}{
		"seconds": {"s", "1700000000", 1700000000000}, "milliseconds": {"ms", "1700000000123", 1700000000123},
		"microseconds": {"us", "1700000000123999", 1700000000123}, "zero": {"ms", "0", 0},
		"milliseconds for seconds":      {"s", "1700000000123", -1},
		"microseconds for milliseconds": {"ms", "1700000000123456", -1},
		"too large":                     {"us", "9223372036854775808", -1}, "negative": {"ms", "-1", -1},
		"fraction": {"s", "1.5", -1},
		"text":     {"ms", "2026-01-01", -1}, "empty": {"ms", "", -1}, "last": {"s", "253402300799", 253402300799000},
	} {
		r, err := New(Config{Columns: DefaultColumns(), Topic: DefaultTopic, TimestampUnit: c.unit})
		require.NoError(t, err)
		rel, row := rowtest.Table(), plainRow()
		at := rel.Column("created_at")
		rel.Columns[at].TypeOID, row[at].Data = 20, []byte(c.text)
		rec, err := r.Route(rel, row, rowtest.Source)
		if c.want < 0 {
			var bad *router.RowError
			require.ErrorAs(t, err, &bad, name)
			require.Equal(t, router.BadTimestamp, bad.Reason, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, rec.Timestamp, name)
	}
	_, err := New(Config{Columns: DefaultColumns(), Topic: DefaultTopic, TimestampUnit: "h"})
	require.Equal(t, fault.Config, fault.KindOf(err))
}
