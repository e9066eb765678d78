package protobuf

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const orders = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "line.proto";
message Other { message Deep { bool b = 1; } }
message Order {
  int64 no = 1;
  State state = 2;
  google.protobuf.Timestamp at = 3;
  repeated Line lines = 4;
  map<string, int32> labels = 5;
  oneof by { string mail = 6; bytes key = 7; }
  google.protobuf.Int64Value count = 8;
  Order parent = 9;
  optional double rate_of_tax = 10;
}
enum State { NEW = 0; PAID = 1; }`

const line = `syntax = "proto3"; package shop; message Line { string sku = 1; uint32 amount = 2; }`

func compile(t testing.TB) *Schema {
	s, err := Compile(orders, map[string]string{"line.proto": line})
	require.NoError(t, err)
	return s
}

// The indexes of frames.
const (
	first  = "\x00"
	second = "\x02\x02"
	deep   = "\x04\x00\x00"
)

func TestAppend(t *testing.T) {
	s := compile(t)
	for _, c := range []struct{ message, document, want string }{
		{first, `{}`, ""},
		{deep, `{"b": true}`, "0801"},
		{second, `{"no": 9007199254740993}`, "08818080808080" + "8010"},
		{second, `{"no": "9007199254740993", "state": "PAID"}`, "088180808080808010" + "1001"},
		{
			second, `{"at": "1970-01-01T00:00:01.5Z", "rateOfTax": 0.5}`,
			"1a08080110" + "80cab5ee01" + "51000000000000e03f",
		},
		{second, `{"rate_of_tax": 0}`, "510000000000000000"},
		{
			second, `{"lines": [{"sku": "a"}, {"amount": 1}], "labels": {"b": 1, "a": 2}}`,
			"22030a0161" + "22021001" + "2a050a01611002" + "2a050a01621001",
		},
		{second, `{"key": "AQI=", "count": "7", "parent": {"no": null}}`, "42020807" + "4a00" + "3a020102"},
	} {
		got, err := s.Append([]byte("frame"), []byte(c.message), []byte(c.document))
		require.NoError(t, err, c.document)
		require.Equal(t, c.want, hex.EncodeToString(got[len("frame"):]), c.document)
		document, err := s.JSON([]byte(c.message + string(got[len("frame"):])))
		require.NoError(t, err)
		again, err := s.Append(nil, []byte(c.message), document)
		require.NoError(t, err)
		require.Equal(t, string(got[len("frame"):]), string(again))
	}
}

// protojson's own texts have values in them.
func TestMisfits(t *testing.T) {
	s := compile(t)
	for _, c := range []struct{ document, want string }{
		{`{"no": "secret"}`, `$.no: expected int64`},
		{`{"no": 9223372036854775808}`, `$.no: expected int64`},
		{`{"no": 1.5}`, `$.no: expected int64`},
		{`{"state": "secret"}`, `$.state: expected enum shop.State`},
		{`{"at": "secret"}`, `$.at: expected message google.protobuf.Timestamp`},
		{
			"{\"mail\": \"äöü\\u0041\",\n \"lines\": [{},\n {\"sku\": \"ä\", \"amount\": \"secret\"}]}",
			`$.lines[1].amount: expected uint32`,
		},
		{`{"lines": {"secret": 1}}`, `$.lines: expected an array`},
		{`{"lines": [{"secret@example.com": 1}]}`, `$.lines[0].*: the message shop.Line has no such field`},
		{`{"labels": {"secret": "secret"}}`, `$.labels.*: expected int32`},
		{`{"labels": {"secret": 1, "secret": 2}}`, `$.labels.*: expected a key that is string, once`},
		{`{"mail": "a", "key": ""}`, `$.key: it is there twice, or beside another field of its oneof`},
		{`{"parent": {"parent": {"rateOfTax": "secret"}}}`, `$.parent.parent.rateOfTax: expected double`},
		{`{"key": "%secret"}`, `$.key: expected bytes`},
		{`{"count": true}`, `$.count: expected message google.protobuf.Int64Value`},
		{`[]`, `$: expected the message shop.Order`},
		{`secret`, `$: expected the message shop.Order`},
		{``, `$: `},
		{`{"mail": "` + "\xff" + `"}`, `$.mail: expected string`},
		{strings.Repeat(`{"parent":`, 200) + "{}" + strings.Repeat("}", 200), `does not fit the message shop.Order`},
	} {
		got, err := s.Append([]byte("frame"), []byte(second), []byte(c.document))
		require.ErrorContains(t, err, c.want, c.document)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, "frame", string(got))
	}
	for _, list := range []string{"\x02\x08", "\x04\x00\x02", "\x01", "", "\x7e"} {
		_, err := s.Append(nil, []byte(list), []byte(`{}`))
		require.Error(t, err, "%x", list)
		_, err = s.JSON([]byte(list))
		require.Error(t, err)
	}
	_, err := s.JSON([]byte(second + "\x08"))
	require.Error(t, err)
}

func TestCompileRefuses(t *testing.T) {
	for schema, want := range map[string]string{
		`syntax = "proto3"; import "x.proto";`:                              "imports what is not among its references",
		`syntax = "proto3"; import "/etc/passwd";`:                          "imports what is not among its references",
		"syntax = \"proto3\";\nmessage A { B b = 1; }":                      "(line 2)",
		`syntax = "proto3"; import "schema.proto"; message A {}`:            "not a valid Protobuf schema",
		`{"type": "record"}`:                                                "not a valid Protobuf schema",
		strings.Repeat("message A {", 20_000) + strings.Repeat("}", 20_000): "",
	} {
		_, err := Compile(schema, nil)
		if want != "" {
			require.ErrorContains(t, err, want)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	s, dst := compile(b), make([]byte, 0, 1024)
	document := []byte(`{"no": 9007199254740993, "state": "PAID", "at": "2026-11-30T22:21:54Z", "mail": "a@example.com",
		"lines": [{"sku": "a-1", "amount": 2}], "labels": {"channel": 1}, "rateOfTax": 0.19}`)
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Append(dst, []byte(second), document); err != nil {
			b.Fatal(err)
		}
	}
}
