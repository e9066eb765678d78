package router

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

const (
	oidUUID        = 2950
	oidTimestamptz = 1184
)

func outboxRelation() *pgoutput.Relation {
	return &pgoutput.Relation{OID: 16400, Namespace: "public", Name: "outbox", Columns: []pgoutput.Column{
		{Name: "id", TypeOID: oidUUID, Key: true}, {Name: "aggregate_type", TypeOID: oidText}, {Name: "aggregate_id", TypeOID: oidText},
		{Name: "event_type", TypeOID: oidText}, {Name: "payload", TypeOID: oidJSONB}, {Name: "headers", TypeOID: oidJSONB},
		{Name: "created_at", TypeOID: oidTimestamptz},
	}}
}

func texts(values ...string) pgoutput.Tuple {
	row := make(pgoutput.Tuple, len(values))
	for i, v := range values {
		row[i] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(v)}
	}
	return row
}

func plainRow() pgoutput.Tuple {
	return texts("018f4d3c-0000-7000-8000-000000000001", "order", "42", "order_placed",
		`{"lines": [{"sku": "a-1", "quantity": 2}], "total": 12.50, "customer": "c-77"}`,
		`{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`, "2026-11-21 08:17:00.123456+00")
}

var source = Source{Position: []byte("0000000016b374d8-00000000"), CommitTime: time.UnixMilli(1_795_249_020_000)}

func newRouter(t testing.TB) *Router {
	r, err := New(Config{Columns: DefaultColumns(), Topic: DefaultTopic})
	require.NoError(t, err)
	return r
}

func reason(t *testing.T, err error) Reason {
	var e *RowError
	require.ErrorAs(t, err, &e)
	return e.Reason
}

func TestNewReportsEveryProblem(t *testing.T) {
	_, err := New(Config{Topic: "${nope}", Columns: Columns{ID: "id"}})
	require.Equal(t, fault.Config, fault.KindOf(err))
	for _, part := range []string{"aggregate_type", "aggregate_id", "columns.type", "payload", "${nope}"} {
		require.ErrorContains(t, err, part)
	}
}

func TestTemplates(t *testing.T) {
	good := []string{"${aggregate_type}.events", "outbox.events", "${type}", "a${aggregate_id}b${type}"}
	for _, template := range good {
		_, err := newTopics(template)
		require.NoError(t, err, template)
	}
	bad := []string{"", ".", "..", "__x", "__${type}", "a b", "a/${type}", "${type", "${id}", "${payload}", "${}", "$type", "}",
		strings.Repeat("a", 250), strings.Repeat("a", 249) + "${type}"}
	for _, template := range bad {
		_, err := newTopics(template)
		require.Error(t, err, template)
		var f *fault.Error
		require.True(t, errors.As(err, &f) && f.Kind == fault.Config && f.Next != "", template)
	}
}

func TestCheckTopic(t *testing.T) {
	for _, name := range []string{"a", "_a", "a__b", "...", "A-z_0.9", strings.Repeat("x", 249)} {
		require.NoError(t, CheckTopic(name), name)
	}
	for _, name := range []string{"", ".", "..", "__a", "a b", "a\x00", "ä", "a/b", strings.Repeat("x", 250), "\xff"} {
		require.Error(t, CheckTopic(name), name)
	}
}

func TestMissingColumns(t *testing.T) {
	for _, name := range []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload"} {
		rel, row := outboxRelation(), plainRow()
		rel.Columns[rel.Column(name)].Name = "renamed"
		_, err := newRouter(t).Route(rel, row, source)
		var e *RowError
		require.ErrorAs(t, err, &e)
		require.Equal(t, MissingColumn, e.Reason)
		require.Equal(t, name, e.Column)
		require.Equal(t, "public.outbox", e.Table)
		require.Equal(t, name == "id", e.EventID == "")
	}
	for _, name := range []string{"headers", "created_at"} {
		rel := outboxRelation()
		rel.Columns[rel.Column(name)].Name = "renamed"
		_, err := newRouter(t).Route(rel, plainRow(), source)
		require.NoError(t, err, name)
	}
}

// A new *Relation means that columns may have moved; the old layout must not be used for the new rows, nor the new
// one for rows of another table.
func TestLayoutFollowsTheRelation(t *testing.T) {
	r := newRouter(t)
	first := outboxRelation()
	rec, err := r.Route(first, plainRow(), source)
	require.NoError(t, err)
	require.Equal(t, "42", string(rec.Key))

	moved := outboxRelation()
	moved.Columns[1], moved.Columns[2] = moved.Columns[2], moved.Columns[1]
	row := plainRow()
	row[1], row[2] = row[2], row[1]
	rec, err = r.Route(moved, row, source)
	require.NoError(t, err)
	require.Equal(t, "order.events", rec.Topic)
	require.Len(t, r.layouts, 1, "the old layout is dropped")

	other := outboxRelation()
	other.OID++
	for range 3 {
		_, err = r.Route(other, plainRow(), source)
		require.NoError(t, err)
		rec, err = r.Route(moved, row, source)
		require.NoError(t, err)
		require.Equal(t, "order.events", rec.Topic)
	}
	require.Len(t, r.layouts, 2)
}

func TestCachesAreBounded(t *testing.T) {
	r := newRouter(t)
	row := plainRow()
	for i := range maxTopics + 10 {
		row[1].Data = fmt.Appendf(nil, "t%d", i)
		row[5].Data = fmt.Appendf(nil, `{"h%d": 1}`, i)
		rec, err := r.Route(outboxRelation(), row, source)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("t%d.events", i), rec.Topic)
		require.Equal(t, fmt.Sprintf("h%d", i), rec.Headers[3].Key)
	}
	require.LessOrEqual(t, len(r.topics.seen), maxTopics)
	require.LessOrEqual(t, len(r.headers.names), maxHeaderNames)
	for i := range uint32(maxLayouts + 10) {
		rel := outboxRelation()
		rel.OID = i
		_, err := r.Route(rel, row, source)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(r.layouts), maxLayouts)
}

func TestKindsOfValues(t *testing.T) {
	r := newRouter(t)
	rel := outboxRelation()

	row := plainRow()
	row[4] = pgoutput.Value{Kind: pgoutput.Unchanged}
	_, err := r.Route(rel, row, source)
	require.Equal(t, UnchangedValue, reason(t, err))

	row[4] = pgoutput.Value{Kind: pgoutput.Binary, Data: []byte("\x01{}")}
	_, err = r.Route(rel, row, source)
	require.Equal(t, BinaryValue, reason(t, err), "binary jsonb starts with a version byte")

	row[4] = pgoutput.Value{Kind: '?', Data: []byte("x")}
	_, err = r.Route(rel, row, source)
	require.Equal(t, MalformedRow, reason(t, err))

	row[4] = pgoutput.Value{Kind: pgoutput.Text}
	rec, err := r.Route(rel, row, source)
	require.NoError(t, err)
	require.NotNil(t, rec.Value, "empty text isn't NULL")

	_, err = r.Route(rel, row[:6], source)
	require.Equal(t, MalformedRow, reason(t, err))

	raw := outboxRelation()
	raw.Columns[4].TypeOID = oidBytea
	row[4] = pgoutput.Value{Kind: pgoutput.Binary, Data: []byte{0, 1, '\\'}}
	rec, err = r.Route(raw, row, source)
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
	row[5].Data = members(MaxHeaders, "")
	rec, err := r.Route(outboxRelation(), row, source)
	require.NoError(t, err)
	require.Len(t, rec.Headers, 3+MaxHeaders)

	row[5].Data = members(MaxHeaders+1, "")
	_, err = r.Route(outboxRelation(), row, source)
	require.Equal(t, HeadersTooLarge, reason(t, err))

	row[5].Data = members(1, strings.Repeat("x", MaxHeaderBytes-4))
	_, err = r.Route(outboxRelation(), row, source)
	require.NoError(t, err)

	row[5].Data = members(1, strings.Repeat("x", MaxHeaderBytes-3))
	_, err = r.Route(outboxRelation(), row, source)
	require.Equal(t, HeadersTooLarge, reason(t, err))

	row[5].Data = []byte(`{"a": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`)
	_, err = r.Route(outboxRelation(), row, source)
	require.Equal(t, BadHeaders, reason(t, err))
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
			_, err := newRouter(t).Route(outboxRelation(), row, source)
			var e *RowError
			require.ErrorAs(t, err, &e)
			require.NotContains(t, fmt.Sprintf("%+v %s", *e, e.Error()), canary)
		})
	}
}

func TestErrorText(t *testing.T) {
	row := plainRow()
	row[0].Data = []byte("\n" + strings.Repeat("ä", 40))
	row[1].Data = []byte("a/b")
	_, err := newRouter(t).Route(outboxRelation(), row, source)
	require.EqualError(t, err, `table public.outbox, event "\n`+strings.Repeat("ä", 31)+`…", column "aggregate_type": `+
		`a topic name consists of letters a-z and A-Z, digits, '.', '_' and '-', and can't hold U+002F at byte 1 (illegal_topic)`)
}

func TestRouteAllocatesNothing(t *testing.T) {
	r := newRouter(t)
	rel, raw := outboxRelation(), outboxRelation()
	raw.OID, raw.Columns[4].TypeOID = 1, oidBytea
	row, rawRow := plainRow(), plainRow()
	row[5].Data = []byte(`{"a": "x\ty", "b": "\ud83d\ude00", "c": {"d": "\u0041"}, "e": null}`)
	rawRow[4].Data = []byte(`\x` + strings.Repeat("00ff", 500))
	route := func() {
		if _, err := r.Route(rel, row, source); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Route(raw, rawRow, source); err != nil {
			t.Fatal(err)
		}
	}
	route()
	require.Zero(t, testing.AllocsPerRun(1000, route))
	require.Less(t, cap(r.headers.object.scratch), 1000, "buffers start anew with each row")
}

func BenchmarkRoute(b *testing.B) {
	benchmarks := map[string]func(*pgoutput.Relation, pgoutput.Tuple){
		"plain": func(*pgoutput.Relation, pgoutput.Tuple) {},
		"headers": func(_ *pgoutput.Relation, row pgoutput.Tuple) {
			row[5].Data = []byte(`{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tenant": "a\u00e9", "n": 1, "o": {"x": [1, 2]}}`)
		},
		"bytea": func(rel *pgoutput.Relation, row pgoutput.Tuple) {
			rel.Columns[4].TypeOID = oidBytea
			row[4].Data = []byte(`\x` + strings.Repeat("00ff", 80))
		},
	}
	for name, change := range benchmarks {
		b.Run(name, func(b *testing.B) {
			r, rel, row := newRouter(b), outboxRelation(), plainRow()
			change(rel, row)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Route(rel, row, source); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
