// Package rowtest holds helpers for the tests of both presets: rows, and checks of their records.
package rowtest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Source is the place of a row in the log.
var Source = router.Source{Position: []byte("0000000016b374d8-00000000"), CommitTime: time.UnixMilli(1_795_249_020_000)}

// Texts returns a row of text values.
func Texts(values ...string) pgoutput.Tuple {
	row := make(pgoutput.Tuple, len(values))
	for i, v := range values {
		row[i] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(v)}
	}
	return row
}

// Reason returns the reason of a RowError.
func Reason(t *testing.T, err error) router.Reason {
	t.Helper()
	var e *router.RowError
	require.ErrorAs(t, err, &e)
	return e.Reason
}

// Needs checks a configuration that names the column x under key: the needs list it, and the router misses it if it is
// required and nothing else besides.
func Needs(t *testing.T, key string, required bool, needs []router.Need, r router.Router) {
	t.Helper()
	const oidText = 25
	rel := &pgoutput.Relation{OID: 1, Namespace: "public", Name: "outbox"}
	var found bool
	for _, n := range needs {
		if n.Column == "x" {
			require.Equal(t, key, n.Key)
			require.Equal(t, required, n.Required)
			found = true
		} else if rel.Column(n.Column) < 0 {
			rel.Columns = append(rel.Columns, pgoutput.Column{Name: n.Column, TypeOID: oidText, Modifier: -1})
		}
	}
	require.True(t, found)
	require.Equal(t, !required, r.Fits(rel))
	with := *rel
	with.Columns = append(with.Columns[:len(with.Columns):len(with.Columns)], pgoutput.Column{
		Name: "x", TypeOID: oidText, Modifier: -1,
	})
	require.True(t, r.Fits(&with), "nothing else is needed")
}

// Seeds adds rows that formats and converters may stumble over.
func Seeds(f *testing.F) {
	for _, payload := range []string{
		`{"a":[1,2.5e300,-0,null,true,{"b":"\u00e9\ud83d\ude00"}]}`, `[]`, `[[1],[2.5]]`, `[{"a":1},{"b":[]}]`, `""`,
		"", "x\x00\x1f\"\\\u2028", `\x00ff`, `{"a":1e999}`, `{"":1}`, `{"a":"\ud800"}`, "\xff\xfe",
		`{"a":{"a":{"a":{}}}}`, `[1,99999999999999999999]`, `{"a":1,"a":"2"}`,
	} {
		for _, oid := range []uint32{text, jsonOID, jsonb, bytea} {
			f.Add("e1", "order", "42", "placed", payload,
				`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`, "2", oid)
		}
	}
	f.Add("\x00", "\"", "\xf0\x9f\x98\x80", "\u2028", "{}", "{\"a\":\"\\u0000\"}", "007", uint32(text))
}

// Type OIDs of the columns in these rows (src/include/catalog/pg_type.dat).
const (
	bytea   = 17
	text    = 25
	jsonOID = 114
	uuid    = 2950
	tstz    = 1184
	jsonb   = 3802
)

// FuzzRow returns a row of these texts in a table with the default columns and event_version, and whether the row is
// valid UTF-8. The relation is nil if Postgres lets no such row in.
func FuzzRow(texts [7]string, oid uint32) (rel *pgoutput.Relation, row pgoutput.Tuple, valid bool) {
	switch oid {
	case text, bytea:
	case jsonOID, jsonb: // Postgres accepts nothing else
		if !json.Valid([]byte(texts[4])) {
			return nil, nil, false
		}
	default:
		return nil, nil, false
	}
	valid = true
	for i, t := range texts {
		valid = valid && (i == 5 || utf8.ValidString(t))
	}
	rel = Table()
	rel.Columns[4].TypeOID = oid
	rel.Columns = append(rel.Columns, pgoutput.Column{Name: "event_version", TypeOID: text})
	row = Texts(append(texts[:6:6], "2026-11-21 08:17:00.123456+00", texts[6])...)
	return rel, row, valid
}

// Route returns the record, or nil for a bad row.
func Route(t *testing.T, r router.Router, rel *pgoutput.Relation, row pgoutput.Tuple) *router.Record {
	rec, err := r.Route(rel, row, Source)
	if err != nil {
		var e *router.RowError
		require.True(t, errors.As(err, &e), err)
		require.NotEmpty(t, e.Detail)
		require.NotEmpty(t, e.Reason)
		return nil
	}
	return rec
}

// Table is a table with the default columns.
func Table() *pgoutput.Relation {
	return &pgoutput.Relation{OID: 16400, Namespace: "public", Name: "outbox", Columns: []pgoutput.Column{
		{Name: "id", TypeOID: uuid, Key: true},
		{Name: "aggregate_type", TypeOID: text},
		{Name: "aggregate_id", TypeOID: text},
		{Name: "event_type", TypeOID: text},
		{Name: "payload", TypeOID: jsonb},
		{Name: "headers", TypeOID: jsonb},
		{Name: "created_at", TypeOID: tstz},
	}}
}

// HeaderTexts returns each header as name=value, and the name alone if the value is null.
func HeaderTexts(list []router.Header) (out []string) {
	for _, h := range list {
		if h.Value == nil {
			out = append(out, h.Key)
			continue
		}
		out = append(out, h.Key+"="+string(h.Value))
	}
	return out
}
