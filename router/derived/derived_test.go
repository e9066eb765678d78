package derived

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
)

func TestPointers(t *testing.T) {
	for text, want := range map[string]Pointer{
		"headers/PARTITION_ID": {"headers", []string{"PARTITION_ID"}}, "h/a/0/b": {"h", []string{"a", "0", "b"}},
		"a~1b/c~0d": {"a/b", []string{"c~d"}}, "h/": {"h", []string{""}}, "h/~01": {"h", []string{"~1"}},
		"Größe x/ü": {"Größe x", []string{"ü"}},
	} {
		p, err := ParsePointer(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p, text)
	}
	for _, text := range []string{"", "headers", "/a", "h/~", "h/~2", "h~/a"} {
		_, err := ParsePointer(text)
		require.Error(t, err, text)
	}
}

func TestMembers(t *testing.T) {
	const null = "<null>"
	for _, c := range []struct{ text, path, want string }{
		{`{"a": "x"}`, "a", "x"},
		{`{"a": 12345678901234567890.10}`, "a", "12345678901234567890.10"},
		{`{"a": {"b": [1, {"c": true}]}}`, "a/b/1/c", "true"},
		{`{"a": {"b": 1 , "c": null}}`, "a", `{"b": 1 , "c": null}`},
		{`{"a": ""}`, "a", ""},
		{`{"a": "\u00e4\n"}`, "a", "ä\n"},
		{`{"a": 1, "a": 2}`, "a", "2"},
		{`{"": "x"}`, "", "x"},
		{` [ "x" , "y" ] `, "1", "y"},
		{`{"a": null}`, "a", null},
		{`{"A": 1}`, "a", null},
		{`{}`, "a", null},
		{`[]`, "0", null},
		{`["x"]`, "-1", null},
		{`["x"]`, "x", null},
		{`"text"`, "a", null},
		{`null`, "a", null},
		{`{"a": "x"}`, "a/b", null},
	} {
		p := Pointer{"c", strings.Split(c.path, "/")}
		got, err := p.find([]byte(c.text))
		require.NoError(t, err, c.text)
		if c.want == null {
			require.Nil(t, got, c.text)
			continue
		}
		require.NotNil(t, got, c.text)
		require.Equal(t, c.want, string(got), c.text)
	}
	for _, text := range []string{"", "x", "{", `{"a": 1} x`, `{"a": }`} {
		_, err := Pointer{"c", []string{"a"}}.find([]byte(text))
		require.ErrorIs(t, err, errNoJSON, text)
	}
}

func FuzzMembers(f *testing.F) {
	f.Add(`{"a": {"b": [1, "x"]}}`, "a/b/1")
	f.Add(`[null]`, "0")
	f.Fuzz(func(t *testing.T, text, path string) {
		p := Pointer{"c", strings.Split(path, "/")}
		got, err := p.find([]byte(text))
		if err != nil && got != nil {
			t.Fatal("a value with an error")
		}
	})
}

// eventuate is a table as Eventuate Tram has it: no type, no key, no topic but in a text that holds JSON.
func eventuate() *pgoutput.Relation {
	rel := &pgoutput.Relation{OID: 5, Namespace: "eventuate", Name: "message"}
	for _, name := range []string{"id", "destination", "headers", "payload"} {
		rel.Columns = append(rel.Columns, pgoutput.Column{Name: name, TypeOID: 25})
	}
	return rel
}

func newRouter(t *testing.T) router.Router {
	r, err := outbox.New(outbox.Config{
		Columns: outbox.Columns{ID: "id", AggregateID: "partition", Type: "kind", Payload: "body"},
		Topic:   "${column:destination}.${column:region}",
	})
	require.NoError(t, err)
	return New(Config{
		Members: map[string]Pointer{
			"partition": {"headers", []string{"PARTITION_ID"}}, "kind": {"headers", []string{"event", "type"}},
			"body": {"payload", []string{"payload"}},
		},
		Constants: map[string]string{"region": "eu"}, ID: "id",
	}, r)
}

func TestRoute(t *testing.T) {
	r, rel := newRouter(t), eventuate()
	require.True(t, r.Fits(rel))
	row := rowtest.Texts("m-1", "orders", `{"PARTITION_ID": "42", "event": {"type": "Placed"}}`,
		`{"payload": "{\"n\": 1}"}`)
	rec, err := r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "orders.eu", rec.Topic)
	require.Equal(t, "42", string(rec.Key))
	require.JSONEq(t, `{"n": 1}`, string(rec.Value))
	require.Equal(t, "Placed", string(rec.Headers[1].Value))

	bad := func(row pgoutput.Tuple) *router.RowError {
		_, err := r.Route(rel, row, rowtest.Source)
		var e *router.RowError
		require.ErrorAs(t, err, &e)
		return e
	}
	e := bad(rowtest.Texts("m-2", "orders", `no JSON`, `{}`))
	require.Equal(t, router.BadValue, e.Reason)
	require.Equal(t, "m-2", e.EventID)
	require.Equal(t, "headers", e.Column)
	require.NotContains(t, e.Error(), "no JSON")
	e = bad(rowtest.Texts("m-3", "orders", `{}`, `{}`))
	require.Equal(t, router.NullKey, e.Reason)
	require.Equal(t, "m-3", e.EventID)
	require.Equal(t, router.MalformedRow, bad(rowtest.Texts("m-4", "orders")).Reason)

	// A tombstone where the member is not there.
	rec, err = r.Route(rel, rowtest.Texts("m-5", "orders", `{"PARTITION_ID": 7}`, `{}`), rowtest.Source)
	require.NoError(t, err)
	require.Nil(t, rec.Value)
	require.Equal(t, "7", string(rec.Key))
}

// A column of the table comes first, and a member of a column that the table lacks is missing.
func TestColumnsOfTheTable(t *testing.T) {
	r, rel := newRouter(t), eventuate()
	rel.Columns = append(rel.Columns, pgoutput.Column{Name: "region", TypeOID: 25})
	rec, err := r.Route(rel, rowtest.Texts("m", "orders", `{"PARTITION_ID": "1"}`, `{}`, "us"), rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "orders.us", rec.Topic)

	rel = eventuate()
	rel.OID, rel.Columns[2].Name = 6, "metadata"
	require.False(t, r.Fits(rel))
	_, err = r.Route(rel, rowtest.Texts("m", "orders", `{}`, `{}`), rowtest.Source)
	require.Error(t, err)
}

func TestBinaryJSON(t *testing.T) {
	r, rel := newRouter(t), eventuate()
	rel.Columns[2].TypeOID = 17
	row := rowtest.Texts("m", "orders", `\x7b22504152544954494f4e5f4944223a2239227d`, `{}`)
	rec, err := r.Route(rel, row, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "9", string(rec.Key))
}

func TestNeeds(t *testing.T) {
	cfg := Config{
		Members: map[string]Pointer{"k": {"headers", []string{"a"}}}, Constants: map[string]string{"c": "x"},
	}
	got := Needs(cfg, []router.Need{
		{Role: "aggregate_id", Column: "k", Key: "router.columns.aggregate_id", Required: true},
		{Column: "c"},
		{Role: "id", Column: "id", Key: "router.columns.id"},
	})
	require.Len(t, got, 2)
	require.Equal(t, "headers", got[0].Column)
	require.Equal(t, "router.json_columns", got[0].Key)
	require.Empty(t, got[0].Role, "its type is not the key's")
	require.Equal(t, "id", got[1].Column)
	require.Nil(t, New(Config{}, nil), "a router without derived columns is not wrapped")
}
