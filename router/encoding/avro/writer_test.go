package avro

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func compile(t testing.TB, schema string) *Schema {
	s, err := Compile(schema, nil)
	require.NoError(t, err, schema)
	return s
}

const order = `{"type":"record","name":"Order","namespace":"shop","fields":[
	{"name":"id","type":{"type":"string","logicalType":"uuid"}},
	{"name":"no","type":"long"},
	{"name":"state","type":{"type":"enum","name":"State","symbols":["new","paid"]}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
	{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[
		{"name":"sku","type":"string"},{"name":"amount","type":"int","default":1},
		{"name":"price","type":["null","double"]}]}}},
	{"name":"labels","type":{"type":"map","values":"string"},"default":{}},
	{"name":"parent","type":["null","Order"],"default":null}]}`

// Each form that a value may have, and its bytes (specification 1.12, "Binary encoding").
func TestValues(t *testing.T) {
	decimal := func(kind string, precision, scale int) string {
		return fmt.Sprintf(`{%s,"logicalType":"decimal","precision":%d,"scale":%d}`, kind, precision, scale)
	}
	long := func(logical string) string { return `{"type":"long","logicalType":"` + logical + `"}` }
	for _, c := range []struct{ schema, document, want string }{
		{`"null"`, ` null `, ""},
		{`"boolean"`, `true`, "01"},
		{`"int"`, `-1`, "01"},
		{`"int"`, `2147483647`, "feffffff0f"},
		{`"int"`, `1.0e1`, "14"},
		{`"int"`, `-2147483648`, "ffffffff0f"},
		{`"long"`, `9223372036854775807`, "feffffffffffffffff01"},
		{`"long"`, `-9223372036854775808`, "ffffffffffffffffff01"},
		{`"long"`, `9007199254740993`, "8280808080808020"},
		{`"long"`, `"9007199254740993"`, "8280808080808020"},
		{`"long"`, `0e999999999999`, "00"},
		{`"long"`, `1230000e-4`, "f601"},
		{`"float"`, `0.1`, "cdcccc3d"},
		{`"float"`, `"NaN"`, "0000c07f"},
		{`"double"`, `0.1`, "9a9999999999b93f"},
		{`"double"`, `-0`, "0000000000000080"},
		{`"double"`, `1e308`, "a0c8eb85f3cce17f"},
		{`"double"`, `"-Infinity"`, "000000000000f0ff"},
		{`"double"`, `0.30000000000000004`, "343333333333d33f"},
		{`"string"`, `"\u00fc\ud83d\ude00"`, "0cc3bcf09f9880"},
		{`"bytes"`, `"\u0000\u00ffA"`, "0600ff41"},
		{`{"type":"fixed","name":"F","size":2}`, `"\u0001\u00fe"`, "01fe"},
		{`{"type":"enum","name":"E","symbols":["a","b"]}`, `"b"`, "02"},
		{`{"type":"array","items":"int"}`, `[]`, "00"},
		{`{"type":"array","items":"int"}`, `[ 1 , 2 ]`, "04020400"},
		{`{"type":"array","items":"null"}`, `[` + strings.Repeat("null,", 99) + `null]`, "c80100"},
		{`{"type":"map","values":"int"}`, `{"a":1, "b":2}`, "0402610202620400"},
		{`["null","string"]`, `null`, "00"},
		{`["null","string"]`, `"a"`, "020261"},
		{`["null","string"]`, `{"string": "a"} `, "020261"},
		{`["double","long"]`, `1`, "0202"},
		{`["double","long"]`, `1.5`, "00000000000000f83f"},
		{`["double","long"]`, `1e30`, "00ea8ca039593e2946"},
		{`["int","long"]`, `2147483648`, "028080808010"},
		{`["string","long"]`, `"1"`, "000231"},
		{`["null",{"type":"map","values":"long"}]`, `{"long":1}`, "0202086c6f6e670200"},
		{`["null",{"type":"map","values":"long"}]`, `{"map":{"a":1}}`, "020202610200"},
		{`["null",{"type":"map","values":"long"}]`, `{"map":1}`, "0202066d61700200"},
		{`[{"type":"enum","name":"E","symbols":["a"]},"string"]`, `"b"`, "020262"},
		{`[{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]},
			{"type":"record","name":"B","fields":[{"name":"y","type":"int","default":1}]}]`, `{}`, "0202"},
		{`[{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]},
			{"type":"record","name":"n.B","fields":[{"name":"x","type":"int"}]}]`, `{"n.B":{"x":1}}`, "0202"},

		{decimal(`"type":"bytes"`, 4, 2), `1.5`, "040096"},
		{decimal(`"type":"bytes"`, 4, 2), `"-1.50"`, "04ff6a"},
		{decimal(`"type":"bytes"`, 4, 2), `0.00`, "0200"},
		{decimal(`"type":"bytes"`, 4, 2), `12.3400`, "0404d2"},
		{decimal(`"type":"bytes"`, 4, 0), `12e2`, "0404b0"},
		{decimal(`"type":"bytes"`, 30, 0), `123456789012345678901234567890`, "1a018ee90ff6c373e0ee4e3f0ad2"},
		{decimal(`"type":"bytes"`, 30, 0), `-123456789012345678901234567890`, "1afe7116f0093c8c1f11b1c0f52e"},
		{decimal(`"type":"bytes"`, 19, 0), `9223372036854775808`, "12008000000000000000"},
		{decimal(`"type":"bytes"`, 19, 0), `-9223372036854775808`, "108000000000000000"},
		{decimal(`"type":"fixed","name":"D","size":4`, 9, 3), `-1`, "fffffc18"},

		{`{"type":"int","logicalType":"date"}`, `"1969-12-31"`, "01"},
		{`{"type":"int","logicalType":"date"}`, `20000`, "c0b802"},
		{`{"type":"int","logicalType":"date"}`, `"2024-02-29"`, "8cb502"},
		{`{"type":"int","logicalType":"time-millis"}`, `"00:00:01.0019"`, "d20f"},
		{long("time-micros"), `"00:00:00.000001"`, "02"},
		{long("timestamp-millis"), `"1970-01-01T01:00:00.0019+01:00"`, "02"},
		{long("timestamp-millis"), `"1969-12-31T23:59:59.9999Z"`, "01"},
		{long("timestamp-micros"), `"1970-01-01T00:00:00.000001Z"`, "02"},
		{long("timestamp-nanos"), `"1970-01-01T00:00:00.000000001Z"`, "02"},
		{long("timestamp-millis"), `1`, "02"},
		{long("local-timestamp-millis"), `"1970-01-01T00:00:00.001"`, "02"},
		{
			`{"type":"string","logicalType":"uuid"}`, `"0190163d-8694-739b-aea5-966c26f8ad90"`,
			"48" + hex.EncodeToString([]byte("0190163d-8694-739b-aea5-966c26f8ad90")),
		},
		{
			`{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, `"0190163D-8694-739b-aea5-966c26f8ad90"`,
			"0190163d8694739baea5966c26f8ad90",
		},
		{`{"type":"string","logicalType":"uid"}`, `"a"`, "0261"}, // not known: it means nothing
		{`{"type":{"type":"string"}}`, `"a"`, "0261"},

		{
			order, `{"no":7,"id":"0190163d-8694-739b-aea5-966c26f8ad90","lines":[{"sku":"a"},{"price":0.5,"sku":"b",
			"amount":2}],"at":"1970-01-01T00:00:00Z","state":"paid","total":"10"}`,
			"48" + hex.EncodeToString([]byte("0190163d-8694-739b-aea5-966c26f8ad90")) + "0e" + "02" + "00" + "0403e8" +
				"04" + "02610200" + "02620402000000000000e03f" + "00" + "00" + "00",
		},
		{`{"type":"record","name":"L","fields":[{"name":"n","type":["null","L"]}]}`, `{"n":{"n":{}}}`, "020200"},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, `{"\u0061":1}`, "02"},
		{
			`{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}`,
			`{"b":1,"b":2,"a":3}`, "0604",
		},
	} {
		got, err := compile(t, c.schema).Append([]byte("frame"), nil, []byte(c.document))
		if !assertNil(t, err, c.schema, c.document) {
			continue
		}
		require.Equal(t, c.want, hex.EncodeToString(got[len("frame"):]), "%s %s", c.schema, c.document)
	}
}

func assertNil(t *testing.T, err error, where ...string) bool {
	if err != nil {
		t.Errorf("%s: %v", where, err)
	}
	return err == nil
}

// What does not fit is said with the path and the type, and without the value.
func TestMisfits(t *testing.T) {
	for _, c := range []struct{ schema, document, want string }{
		{`"int"`, `2147483648`, `$: expected int, found a value that is not a whole number, or out of its range`},
		{`"long"`, `9223372036854775808`, `$: expected long, found a value that is`},
		{`"long"`, `1.5`, `$: expected long, found a value that is`},
		{`"long"`, `1e999999999`, `$: expected long, found a value that is`},
		{`"long"`, `"secret"`, `$: expected long, found a value that is`},
		{`"long"`, `true`, `$: expected long, found a boolean`},
		{`"boolean"`, `null`, `$: expected boolean, found null`},
		{`"string"`, `1`, `$: expected string, found a number`},
		{`"string"`, "\"\xff\"", `$: expected string, found a string that is not UTF-8`},
		{`"double"`, `1e999`, `$: expected double, found a number out of its range`},
		{`"double"`, `"secret"`, `$: expected double, found a string`},
		{`"bytes"`, `"\u0100"`, `beyond U+00FF`},
		{`{"type":"fixed","name":"F","size":2}`, `"abc"`, `$: expected fixed F, found a string of another length`},
		{`{"type":"int","logicalType":"date"}`, `"2023-02-29"`, `$: expected date, found a string of another form`},
		{`{"type":"long","logicalType":"timestamp-millis"}`, `"2023-02-28T00:00:00"`, `expected timestamp-millis`},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, `"2023-02-28T00:00:00Z"`, `expected local-`},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, `"2300-01-01T00:00:00Z"`, `expected timestamp-nanos`},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, `1.001`, `$: expected decimal(4,2)`},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, `100`, `$: expected decimal(4,2)`},
		{`{"type":"bytes","logicalType":"decimal","precision":4}`, `1e999999999999`, `$: expected decimal(4,0)`},
		{`["null","int"]`, `"secret"`, `$: expected one of null, int, found a string`},
		{`[{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]},
			{"type":"record","name":"B","fields":[{"name":"y","type":"int"}]}]`, `{}`, `one of record A, record B`},
		{`["null",{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}]`, `{}`, `$.x: expected int`},
		{order, `{"secret@example.com":1}`, `$.*: record shop.Order has no such field`},
		{order, `{"lines":[{"sku":"a"},{"sku":"b","amount":"secret"}]}`, `$.id: expected uuid, and there is no`},
		{
			`{"type":"map","values":` + strings.Replace(order, `"id"`, `"x"`, 1) + `}`, `{"secret":{"x":1}}`,
			`$.*.x: expected uuid, found a number`,
		},
		{
			`{"type":"record","name":"R","fields":[{"name":"lines","type":{"type":"array","items":["null","int"]}}]}`,
			`{"lines":[1,null,{"int":"secret"}]}`, `$.lines[2]: expected one of null, int, found an object`,
		},
		{`"int"`, ``, `$: expected int, found nothing`},
		{`"int"`, `1 1`, `the text is not JSON`},
		{`{"type":"array","items":"int"}`, `[1`, `the text is not JSON`},
		{`{"type":"array","items":"int"}`, `[1,]`, `$[1]: expected int, found a number`},
		{`{"type":"map","values":"int"}`, `{"a" 1}`, `the text is not JSON`},
		{order, `{"no":1`, `the text is not JSON`},
		{
			`{"type":"record","name":"L","fields":[{"name":"n","type":["null","L"]}]}`,
			strings.Repeat(`{"n":`, 200) + `null` + strings.Repeat(`}`, 200), `nested too deep`,
		},
	} {
		dst := []byte("frame")
		got, err := compile(t, c.schema).Append(dst, nil, []byte(c.document))
		if !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s %s: %v", c.schema, c.document, err)
		}
		require.NotContains(t, fmt.Sprint(err), "secret")
		require.Equal(t, "frame", string(got), "nothing is appended")
	}
}

func TestHostileSchemas(t *testing.T) {
	record := func(name string, fields ...string) string {
		return `{"type":"record","name":"` + name + `","fields":[` + strings.Join(fields, ",") + `]}`
	}
	double := `"R0"`
	list := record("R0", `{"name":"a","type":"long","default":1}`)
	for i := 1; i < 60; i++ {
		list += "," + record(fmt.Sprint("R", i), `{"name":"a","type":`+double+`,"default":{}}`,
			`{"name":"b","type":`+double+`,"default":{}}`)
		double = fmt.Sprintf(`"R%d"`, i)
	}
	for _, c := range []struct{ schema, want string }{
		{``, "is not JSON"},
		{`"strnig"`, `the type "strnig" is not defined`},
		{`5`, "neither a name"},
		{`{"type":"array"}`, "neither a name"},
		{record("R", `{"name":"a","type":"int","default":"x"}`), `the default of field "a" of "R" does not fit`},
		{record("R", `{"name":"a","type":"R","default":{}}`), "has no end"},
		{record("R", `{"name":"a"}`), "neither a name"},
		{record("R", `{"name":"a","type":"int"}`, `{"name":"a","type":"int"}`), "there twice"},
		{`[["null"]]`, "a union is in a union"},
		{`["int","int"]`, `a union has "int" twice`},
		{`[` + list + `]`, "too large"},
		{strings.Repeat(`{"type":"array","items":`, 200) + `"int"` + strings.Repeat("}", 200), "levels of types"},
		{`{"type":"fixed","name":"F","size":99999999999}`, "is not a number"},
		{`{"type":"enum","name":"E","symbols":["a","a"]}`, "there twice"},
		{`[` + record("R") + `,` + record("R") + `]`, "defined twice"},
	} {
		_, err := Compile(c.schema, nil)
		require.ErrorContains(t, err, c.want, c.schema)
	}
	s, err := Compile(record("n.R", `{"name":"a","type":"n.S"}`, `{"name":"b","type":"S"}`), []string{record("n.S")})
	require.NoError(t, err, "a reference")
	_, err = s.Append(nil, nil, []byte(`{"a":{},"b":{}}`))
	require.NoError(t, err)

	// Small members that stand for large defaults.
	s = compile(t, `{"type":"array","items":`+record("R", `{"name":"a","type":"string","default":"`+
		strings.Repeat("x", 1<<19)+`"}`)+`}`)
	_, err = s.Append(nil, nil, []byte(`[{}`+strings.Repeat(`,{}`, 10_000)+`]`))
	require.ErrorContains(t, err, "the encoded payload is too large")

	// Branches that each have to be compared with every object.
	var branches []string
	for i := range 2000 {
		branches = append(branches, record(fmt.Sprint("B", i), `{"name":"a","type":["null","B`+fmt.Sprint(i)+`"]}`,
			fmt.Sprintf(`{"name":"c%d","type":"int"}`, i)))
	}
	s = compile(t, `[`+strings.Join(branches, ",")+`]`)
	_, err = s.Append(nil, nil, []byte(`{"a":{"a":"`+strings.Repeat("x", 1<<17)+`"}}`))
	require.ErrorContains(t, err, "too many steps")
}

// What was decoded is encoded to the same bytes again.
func TestJSON(t *testing.T) {
	for _, c := range []struct{ schema, document, want string }{
		{order, `{"no":7,"id":"0190163d-8694-739b-aea5-966c26f8ad90","lines":[{"sku":"a"}],"at":"1970-01-01T00:00:00Z",
			"state":"paid","total":"10"}`, `{"id":"0190163d-8694-739b-aea5-966c26f8ad90","no":7,"state":"paid",` +
			`"at":"1970-01-01T00:00:00Z","total":10.00,"lines":[{"sku":"a","amount":1,"price":null}],"labels":{},` +
			`"parent":null}`},
		{`["null",{"type":"map","values":"bytes"}]`, `{"a":"\u00ff"}`, `{"map":{"a":"ÿ"}}`},
		{`{"type":"bytes","logicalType":"decimal","precision":9,"scale":4}`, `-0.0001`, `-0.0001`},
		{`{"type":"int","logicalType":"date"}`, `"1969-01-01"`, `"1969-01-01"`},
		{`{"type":"int","logicalType":"time-millis"}`, `-1`, `-1`},
		{
			`{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, `"0190163d-8694-739b-aea5-966c26f8ad90"`,
			`"0190163d-8694-739b-aea5-966c26f8ad90"`,
		},
	} {
		s := compile(t, c.schema)
		encoded, err := s.Append(nil, nil, []byte(c.document))
		require.NoError(t, err)
		got, err := s.JSON(encoded)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
		again, err := s.Append(nil, nil, got)
		require.NoError(t, err)
		require.Equal(t, encoded, again)
	}
	for _, bad := range []string{"", "\x02", "\x03", "\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		_, err := compile(t, `["null","string"]`).JSON([]byte(bad))
		require.ErrorIs(t, err, errEncoded)
	}
	_, err := compile(t, `{"type":"array","items":"null"}`).JSON(
		[]byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"))
	require.ErrorIs(t, err, errEncoded, "a count that would fill the memory")
	require.Equal(t, math.MaxInt64, int(^uint(0)>>1), "sizes are 64 bits wide")
}

const usual = `{"total": "12.50", "no": 9007199254740993, "state": "paid", "id": "0190163d-8694-739b-aea5-966c26f8ad90",
	"lines": [{"sku": "a-1", "price": 6.25, "amount": 2}], "labels": {"channel": "web"}, "at": "2026-11-30T22:21:54Z"}`

// The writer is used without the schema's pool, which drops writers by chance under the race detector.
func TestDocumentAllocatesNothing(t *testing.T) {
	s, dst, document := compile(t, order), make([]byte, 0, 1024), []byte(usual)
	w := &writer{}
	w.Loose = true
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := w.document(dst, s.root, document); err != nil {
			t.Fatal(err)
		}
	}))
}

func BenchmarkAppend(b *testing.B) {
	s, dst, document := compile(b, order), make([]byte, 0, 1024), []byte(usual)
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		if _, err := s.Append(dst, nil, document); err != nil {
			b.Fatal(err)
		}
	}
}
