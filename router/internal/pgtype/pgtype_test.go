package pgtype

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

var defaults = Options{Decimal: "precise", Time: "adaptive", Binary: "bytes", HStore: "json", Interval: "numeric"}

const firstCustom = FirstNormalOID

// custom are types of extensions and of users, as pg_type describes them.
func custom(oid uint32) (Info, bool) {
	t, ok := map[uint32]Info{
		firstCustom:     {Name: "mood", Enum: true, Labels: []string{"sad", "ok"}},
		firstCustom + 1: {Name: "price", Base: 1700, BaseModifier: 4 + 10<<16 + 2},
		firstCustom + 2: {Name: "hstore"},
		firstCustom + 3: {Name: "geometry"},
		firstCustom + 4: {Name: "_mood", Element: firstCustom},
		firstCustom + 5: {Name: "pair"}, // a composite
		firstCustom + 6: {Name: "vector"},
		firstCustom + 7: {Name: "ltree"},
	}[oid]
	return t, ok
}

// Each type's text as a header and as JSON. testdata/debezium holds the output of the real Debezium for these types.
func TestTypes(t *testing.T) {
	for _, c := range []struct {
		name             string
		oid              uint32
		modifier         int32
		in, header, json string
	}{
		{"bool", 16, -1, "t", "true", "true"},
		{"int2", 21, -1, "-32768", "-32768", "-32768"},
		{"int8", 20, -1, "9223372036854775807", "9223372036854775807", "9223372036854775807"},
		{"float4", 700, -1, "1e-45", "1.4E-45", "1.4E-45"},
		{"float8", 701, -1, "NaN", "NaN", `"NaN"`},
		{"float8 whole", 701, -1, "10000000", "1.0E7", "1.0E7"},
		{"numeric(10,2)", 1700, 4 + 10<<16 + 2, "12.50", "12.50", `"BOI="`},
		{"numeric", 1700, -1, "12.50", `{"scale":1,"value":"fQ=="}`, `{"scale":1,"value":"fQ=="}`},
		{"bytea", 17, -1, `\x00ff`, "AP8=", `"AP8="`},
		{"date", 1082, -1, "2019-03-24", "17979", "17979"},
		{"date BC", 1082, -1, "0001-12-31 BC", "-719163", "-719163"},
		{"date infinity", 1082, -1, "infinity", "-2147472692", "-2147472692"},
		{"time", 1083, -1, "20:52:59.5", "75179500000", "75179500000"},
		{"time(3)", 1083, 3, "24:00:00", "86400000", "86400000"},
		{"timestamp", 1114, -1, "1969-12-31 23:59:59.999999", "-1", "-1"},
		{"timestamp(3)", 1114, 3, "1969-12-31 23:59:59.999", "-1", "-1"},
		{"timestamp infinity", 1114, -1, "-infinity", "-9223372036832400000", "-9223372036832400000"},
		{
			"timestamptz", 1184, -1, "2019-03-24 20:52:59.1+02", "2019-03-24T18:52:59.100000Z",
			`"2019-03-24T18:52:59.100000Z"`,
		},
		{"timestamptz(0)", 1184, 0, "10000-01-01 00:00:00+00", "+10000-01-01T00:00:00Z", `"+10000-01-01T00:00:00Z"`},
		{
			"timestamptz offset in seconds", 1184, -1, "1850-01-01 00:00:00+00:53:28", "1849-12-31T23:06:32.000000Z",
			`"1849-12-31T23:06:32.000000Z"`,
		},
		{
			"timestamptz BC", 1184, -1, "0001-01-01 00:00:00+00 BC", "0000-01-01T00:00:00.000000Z",
			`"0000-01-01T00:00:00.000000Z"`,
		},
		{"timetz", 1266, -1, "00:00:00.5-05:30", "05:30:00.5Z", `"05:30:00.5Z"`},
		{"interval", 1186, -1, "-1 years -2 mons +3 days -04:05:06.789", "-36572706789000", "-36572706789000"},
		{"uuid", 2950, -1, "u", "u", `"u"`},
		{
			"text[]", 1009, -1, `{a,"b,\"c\\",NULL,"NULL",""}`, `["a","b,\"c\\",null,"NULL",""]`,
			`["a","b,\"c\\",null,"NULL",""]`,
		},
		{"int4[] empty", 1007, -1, "{}", "[]", "[]"},
		{"bit", 1560, 1, "1", "true", "true"},
		{"bit(9)", 1560, 9, "100000001", "AQE=", `"AQE="`},
		{"varbit zeros", 1562, -1, "000", "", `""`},
		{"money", 790, -1, "-$1,234.50", "-1234.50", `"/h3G"`},
		{
			"point", 600, -1, "(1,-2.5)", `{"x":1.0,"y":-2.5,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAATA","srid":null}`,
			`{"x":1.0,"y":-2.5,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAATA","srid":null}`,
		},
		{"enum", firstCustom, -1, "ok", "ok", `"ok"`},
		{"domain", firstCustom + 1, -1, "1.00", "1.00", `"ZA=="`},
		{"hstore", firstCustom + 2, -1, `"b"=>"1", "a"=>NULL`, `{"a":null,"b":"1"}`, `"{\"a\":null,\"b\":\"1\"}"`},
		{
			"geometry", firstCustom + 3, -1, "0101000020E6100000000000000000F03F0000000000000040",
			`{"wkb":"AQEAACDmEAAAAAAAAAAA8D8AAAAAAAAAQA==","srid":4326}`,
			`{"wkb":"AQEAACDmEAAAAAAAAAAA8D8AAAAAAAAAQA==","srid":4326}`,
		},
		{"enum[]", firstCustom + 4, -1, "{sad,ok}", `["sad","ok"]`, `["sad","ok"]`},
		{"vector", firstCustom + 6, -1, "[1,2.5]", "[1.0,2.5]", "[1.0,2.5]"},
		{"not in the catalog", firstCustom + 99, -1, "x", "x", `"x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			conv := defaults.New(c.oid, c.modifier, custom)
			require.NotNil(t, conv)
			v, err := conv.Convert([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.header, string(connect.AppendHeader(nil, &v)))
			require.Equal(t, c.json, string(connect.AppendJSON(nil, &v)))
		})
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		name         string
		o            Options
		oid          uint32
		in, want, js string
	}{
		{"double", Options{Decimal: "double"}, 1700, "12.50", "12.5", "12.5"},
		{"double NaN", Options{Decimal: "double"}, 1700, "NaN", "NaN", `"NaN"`},
		{"string", Options{Decimal: "string"}, 1700, "0.0000001", "0.0000001", `"0.0000001"`},
		{"connect date", Options{Time: "connect"}, 1082, "2019-03-24", "2019-03-24", "17979"},
		{"connect time", Options{Time: "connect"}, 1083, "20:52:59.5", "20:52:59.500Z", "75179500"},
		{
			"connect timestamp",
			Options{Time: "connect"},
			1114, "2019-03-24 20:52:59.123456",
			"2019-03-24T20:52:59.123Z", "1553460779123",
		},
		{"micros", Options{Time: "microseconds"}, 1114, "1970-01-01 00:00:01", "1000000", "1000000"},
		{"nanos", Options{Time: "nanoseconds"}, 1114, "1970-01-01 00:00:01", "1000000000", "1000000000"},
		{"iso date", Options{Time: "isostring"}, 1082, "2019-03-24", "2019-03-24Z", `"2019-03-24Z"`},
		{"iso time", Options{Time: "isostring"}, 1083, "20:52:59.5", "20:52:59.5Z", `"20:52:59.5Z"`},
		{
			"iso timestamp",
			Options{Time: "isostring"},
			1114, "2019-03-24 20:52:59", "2019-03-24T20:52:59Z",
			`"2019-03-24T20:52:59Z"`,
		},
		{"base64", Options{Binary: "base64-url-safe"}, 17, `\xfbff`, "-_8=", `"-_8="`},
		{"hex", Options{Binary: "hex"}, 17, `\xfbff`, "fbff", `"fbff"`},
		{
			"interval",
			Options{Interval: "string"},
			1186, "1 year 2 mons -3 days +04:05:06.789", "P1Y2M-3DT4H5M6.789S",
			`"P1Y2M-3DT4H5M6.789S"`,
		},
		{"hstore", Options{HStore: "map"}, firstCustom + 2, `"b"=>"1"`, `{"b":"1"}`, `{"b":"1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := c.o.New(c.oid, -1, custom).Convert([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(connect.AppendHeader(nil, &v)))
			require.Equal(t, c.js, string(connect.AppendJSON(nil, &v)))
		})
	}
}

// What Debezium leaves out of its records: other geometric types, pg_lsn, tsquery, arrays of money, composites.
func TestTypesLeftOut(t *testing.T) {
	for _, oid := range []uint32{601, 602, 603, 604, 628, 718, 3220, 3615, 791, 1003, 1187, 1563, firstCustom + 5} {
		require.Nil(t, defaults.New(oid, -1, custom), oid)
	}
}

func TestMalformed(t *testing.T) {
	for oid, texts := range map[uint32][]string{
		16: {"", "true"}, 23: {"", "x", "1.5"}, 701: {"x"}, 1700: {"", "NaN", "Infinity", "1e5"},
		17: {"", `\000`, `\x0`}, 1082: {"", "2019-3-4", "2019-13-01"},
		1083: {"25:00:00", "24:00:01", "1:00:00"},
		1114: {"2019-03-24", "2019-03-24 20:52:59+00", "294276-12-31 23:59:59"}, 1184: {"2019-03-24 20:52:59"},
		1186: {"", "1 fortnight", "04:05"}, 1007: {"", "{", "{1", "{{1}}", "{1,}", "[0:1]={1,2}"}, 1560: {"2"},
		600: {"1,2", "(1)"}, 790: {"1.234,50 €", ""},
	} {
		for _, text := range texts {
			_, err := defaults.New(oid, -1, nil).Convert([]byte(text))
			require.Error(t, err, "%d %q", oid, text)
		}
	}
}

// Dates agree with the standard library's calendar, both ways.
func TestCalendar(t *testing.T) {
	for day := time.Date(-400, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2400; day = day.AddDate(0, 0, 97) {
		y, m, d := day.Date()
		n := daysSince1970(int64(y), int64(m), int64(d))
		require.Equal(t, day.Unix()/86400, n, day)
		yy, mm, dd := civil(n)
		require.Equal(t, []int64{int64(y), int64(m), int64(d)}, []int64{yy, mm, dd})
	}
}

// No text makes a conversion panic, and what is converted can be written in every form.
func FuzzConvert(f *testing.F) {
	oids := []uint32{
		16, 17, 20, 600, 700, 701, 790, 1082, 1083, 1114, 1184, 1186, 1266, 1560, 1700, 1007, 1009, 1185,
		firstCustom + 2, firstCustom + 3, firstCustom + 6,
	}
	for i, text := range []string{
		"t", `\x00`, "1", "(1,2)", "1e5", "NaN", "$1.00", "0044-03-15 BC", "20:52:59.5", "infinity",
		"2019-03-24 20:52:59+02", "1 day", "00:00:00-05", "101", "1.50", "{1,NULL}", `{"a\"",b}`, "{}", `"a"=>NULL`,
		"0101", "[1]",
	} {
		f.Add(byte(i), text)
	}
	modes := []Options{
		defaults,
		{Decimal: "string", Time: "connect", Binary: "hex", HStore: "map", Interval: "string"},
		{Decimal: "double", Time: "isostring"},
		{Decimal: "precise", Time: "nanoseconds"},
	}
	f.Fuzz(func(_ *testing.T, which byte, text string) {
		for _, o := range modes {
			for _, modifier := range []int32{-1, 3} {
				v, err := o.New(oids[int(which)%len(oids)], modifier, custom).Convert([]byte(text))
				if err != nil {
					continue
				}
				connect.AppendHeader(nil, &v)
				connect.AppendString(nil, &v)
				connect.AppendJSON(nil, &v)
			}
		}
	})
}
