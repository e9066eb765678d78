package outbox

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/jsonobject"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
)

// The scanner must take exactly the objects that encoding/json takes, with the same names and values. It may differ
// where it does so on purpose: half surrogate pairs, bytes that are not UTF-8, deep nesting.
func FuzzJSONObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, ` { "a" : "b" , "c":null}`,
		`{"a":{"b":[1,-2.5e+7,true,false,null,"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"]}}`,
		`{"a":1,"a":2}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{,}`, `{"a":1,}`, `{"a"}`, `[1]`, `{"\ud83d":"\ude00"}`,
		`{"a":tru}`, "{\"a\":\"\x01\"}", `{"a":1}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if !utf8.Valid(src) {
			return
		}
		original := bytes.Clone(src)
		names, values, err := scan(src)
		require.Equal(t, original, src, "the rowSource is left alone")
		if errors.Is(err, jsonobject.ErrJSONSurrogate) || errors.Is(err, jsonobject.ErrJSONDepth) {
			return
		}
		wantNames, wantValues, wantErr := scanWithStandardLibrary(src)
		if wantErr != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, wantNames, names)
		require.Equal(t, wantValues, values)
	})
}

func scan(src []byte) (names, values []string, err error) {
	var o jsonobject.Object
	some, err := o.Reset(src)
	var members []jsonobject.Member
	for some && err == nil {
		var m jsonobject.Member
		if m, some, err = o.Next(); some {
			members = append(members, m)
		}
	}
	// Only now, as later members must not touch the slices of earlier ones.
	for _, m := range members {
		names = append(names, string(m.Name))
		if m.Value == nil {
			values = append(values, "<null>")
		} else {
			values = append(values, string(m.Value))
		}
	}
	return names, values, err
}

func scanWithStandardLibrary(src []byte) (names, values []string, err error) {
	if !json.Valid(src) {
		return nil, nil, errors.New("invalid")
	}
	if string(bytes.TrimSpace(src)) == "null" {
		return nil, nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(src))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, errors.New("no object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, nil, err
		}
		value := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &value); err != nil {
				return nil, nil, err
			}
		}
		if value == "null" && raw[0] == 'n' {
			value = "<null>"
		}
		names = append(names, name.(string))
		values = append(values, value)
	}
	return names, values, nil
}

// Whatever the template and the row, a topic that comes out is legal and the template's text with the values in it.
func FuzzTopic(f *testing.F) {
	f.Add("${aggregate_type}.events", "order", "42", "placed")
	f.Add("${type}${aggregate_id}", "", "_", "_x")
	f.Add("a.${aggregate_type", "x", "x", "x")
	f.Fuzz(func(t *testing.T, template, aggregateType, aggregateID, eventType string) {
		r, err := New(Config{Columns: DefaultColumns(), Topic: template})
		if err != nil {
			return
		}
		row := plainRow()
		row[1].Data, row[2].Data, row[3].Data = []byte(aggregateType), []byte(aggregateID), []byte(eventType)
		want := strings.NewReplacer("${aggregate_type}", aggregateType, "${aggregate_id}", aggregateID, "${type}",
			eventType).Replace(template)
		rec, err := r.Route(rowtest.Table(), row, rowtest.Source)
		if err != nil {
			var e *router.RowError
			require.ErrorAs(t, err, &e)
			require.True(t, e.Reason == router.Unroutable || router.CheckTopic(want) != nil)
			return
		}
		require.Equal(t, want, rec.Topic)
		require.NoError(t, router.CheckTopic(rec.Topic))
	})
}

func FuzzBytea(f *testing.F) {
	f.Add(`\x`)
	f.Add(`\x00fF`)
	f.Add(`\x0`)
	f.Add(`\000`)
	rel := rowtest.Table()
	rel.Columns[4].TypeOID = layout.OIDBytea
	f.Fuzz(func(t *testing.T, text string) {
		row := plainRow()
		row[4] = pgoutput.Value{Kind: pgoutput.Text, Data: []byte(text)}
		rec, err := newRouter(t).Route(rel, row, rowtest.Source)
		if err != nil {
			require.Equal(t, router.BadBytea, rowtest.Reason(t, err))
			return
		}
		require.NotNil(t, rec.Value)
		require.Equal(t, strings.ToLower(text), `\x`+hex.EncodeToString(rec.Value))
	})
}
