package identifier

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile are names that break out of careless quoting or get lost in it.
var hostile = []string{
	`o'brien`, `say "hi"`, `a"; DROP TABLE outbox; --`, `a'); SELECT pg_sleep(9); --`, `Mixed.Case`, `with space`,
	`back\slash`, `\`, `naïve-таблица-表`, `$1`, `$$x$$`, `select`, "new\nline", `%s`, `"`, `'`, `''`, `E'\x41'`,
	`trailing;`, `1st`, `a--b`, `/*`,
}

func TestParseTable(t *testing.T) {
	for text, want := range map[string]Table{
		`outbox`:                  {"public", "outbox"},
		`public.outbox`:           {"public", "outbox"},
		`Public.OutBox`:           {"public", "outbox"}, // folded as SQL folds it
		`"Quoted"."Mixed.Case"`:   {"Quoted", "Mixed.Case"},
		`app."a""b"`:              {"app", `a"b`},
		`"public".outbox_2$`:      {"public", "outbox_2$"},
		`Été.ТАБЛИЦА`:             {"Été", "ТАБЛИЦА"}, // only ASCII is folded
		`"select"`:                {"public", "select"},
		`"; DROP TABLE x; --".t1`: {"; DROP TABLE x; --", "t1"},
	} {
		got, err := ParseTable(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := ParseTable(got.String())
		require.NoError(t, err, got.String())
		require.Equal(t, got, again)
	}
	for _, text := range []string{
		``, `.`, `a.`, `.a`, `a.b.c`, `"a`, `"a"b`, `""`, `a b`, `a;b`, `a-b`, `1a`, ` a`, `a `, `"a"".b`, "a\x00",
		"\"a\x00\"", "\xff", strings.Repeat("a", 64), `"` + strings.Repeat("é", 32) + `"`,
	} {
		got, err := ParseTable(text)
		require.Error(t, err, "%q became %#v", text, got)
	}
}

func FuzzParseTable(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
		f.Add(Quote(name) + "." + Quote(name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ParseTable(text)
		if err != nil {
			return
		}
		for _, form := range []string{table.String(), table.SQL()} {
			again, err := ParseTable(form)
			if err != nil || again != table {
				t.Fatalf("%q is %#v, written as %s it is %#v (%v)", text, table, form, again, err)
			}
		}
	})
}

func TestCheckSlotName(t *testing.T) {
	for _, name := range []string{"a", "cdc_outbox", "0", "_", strings.Repeat("x", 63)} {
		require.NoError(t, CheckSlotName(name))
	}
	for _, name := range append([]string{"", "Upper", "dash-ed", "é", "a b", strings.Repeat("x", 64)}, hostile...) {
		if name != "select" && name != "1st" { // fine as slot names
			require.Error(t, CheckSlotName(name), name)
		}
	}
}

func TestCheckIdentifier(t *testing.T) {
	for _, name := range hostile {
		require.NoError(t, Check(name), name)
	}
	for _, name := range []string{"", "a\x00b", strings.Repeat("é", 32), "\xc3"} {
		require.Error(t, Check(name), name)
	}
}

func TestQuoting(t *testing.T) {
	require.Equal(t, `"a""b"`, Quote(`a"b`))
	require.Equal(t, `'o''brien'`, QuoteLiteral(`o'brien`))
	require.Equal(t, ` E'a\\''b'`, QuoteLiteral(`a\'b`))
	require.Equal(t, `"ab"`, Quote("a\x00b"))
}
