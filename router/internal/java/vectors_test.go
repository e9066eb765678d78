package java

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectors reads a file of what Java did, a JSON value a line.
func vectors[T any](t testing.TB, name string) (all []T) {
	f, err := os.Open("../../../testdata/java/" + name)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		all = append(all, v)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, all)
	return all
}

type regexVector struct {
	Pattern, Replacement string
	Illegal              bool              // Java throws, for the pattern or for the first input that matches
	Topics               map[string]string // of the inputs that match as a whole
	Inputs               []string
}

// A pattern is refused, or does for every input what Java did.
func TestRegexVectors(t *testing.T) {
	all := vectors[regexVector](t, "regex.jsonl")
	inputs := all[len(all)-1].Inputs
	require.NotEmpty(t, inputs)
	accepted := 0
	for _, v := range all[:len(all)-1] {
		r, err := NewReplacer(v.Pattern, v.Replacement)
		if err != nil {
			continue
		}
		accepted++
		require.False(t, v.Illegal, "%q with %q is illegal in Java", v.Pattern, v.Replacement)
		for _, in := range inputs {
			want, matches := v.Topics[in]
			got, ok := r.Replace(in)
			require.Equal(t, matches, ok, "%q on %q", v.Pattern, in)
			require.Equal(t, want, got, "%q on %q with %q", v.Pattern, in, v.Replacement)
		}
	}
	require.GreaterOrEqual(t, accepted, 60, "too much is refused")
}

func TestRefusedPatterns(t *testing.T) {
	for _, pattern := range []string{
		"(?=a).*", "(?!a).*", "(?<=a).*", "(?<!a).*", "(?>a+)", "x*+", "x++", "x?+", "x{2}+", `(.)\1`, `(?<n>.)\k<n>`,
		"[a-z&&[^b]]", "[a[b]]", "(?x)a b", "(?u)a", "(?U)a", "(?d)a", `\h`, `\R`, `\X`, `\G`, `\cA`, `\01`, `\b{g}`,
		`\p{L}`, `\p{IsAlphabetic}`, `[\P{Alpha}]`, "(a*)*", "(a?)+", "a{,3}", "{", "[]a]", "[a-\\d]", "[\\d-z]",
		"(?m)a", "ä", "(?P<a>.)", "(?<a_b>.)", "(", ")", "[a", "a**", `\`, "(?i", "(?<a>.)(?<a>.)", "[[:alpha:]]",
	} {
		_, err := NewReplacer(pattern, "x")
		require.Error(t, err, pattern)
	}
	for _, replacement := range []string{"$", "$x", "${", "${}", "${a", "${1}", "${nope}", "$2", `\`} {
		_, err := NewReplacer("(.*)", replacement)
		require.Error(t, err, replacement)
	}
}

func TestFloatingVectors(t *testing.T) {
	type vector struct {
		Bits, Text string
		Single     bool
	}
	for _, v := range vectors[vector](t, "floating.jsonl") {
		bits, err := strconv.ParseUint(v.Bits, 16, 64)
		require.NoError(t, err)
		if v.Single {
			require.Equal(t, v.Text, string(AppendFloat(nil, math.Float32frombits(uint32(bits)))))
			continue
		}
		require.Equal(t, v.Text, string(AppendDouble(nil, math.Float64frombits(bits))))
	}
	require.Equal(t, "NaN", string(AppendDouble(nil, math.NaN())))
	require.Equal(t, "-Infinity", string(AppendFloat(nil, float32(math.Inf(-1)))))
}

func TestDecimalVectors(t *testing.T) {
	type vector struct {
		Text, String, Plain, Unscaled, Stripped, Double string
		Scale                                           int
	}
	for _, v := range vectors[vector](t, "decimal.jsonl") {
		d, ok := ParseDecimal([]byte(v.Text))
		require.True(t, ok, v.Text)
		require.Equal(t, v.String, string(d.Append(nil)))
		require.Equal(t, v.Plain, string(d.AppendPlain(nil)))
		require.Equal(t, v.Unscaled, base64.StdEncoding.EncodeToString(d.Unscaled()), v.Text)
		require.Equal(t, v.Double, string(AppendDouble(nil, d.Float64())))
		s := d.StripTrailingZeros()
		require.Equal(t, v.Stripped, string(s.AppendPlain(nil)), v.Text)
		require.Equal(t, v.Scale, s.Scale, v.Text)
	}
	for _, text := range []string{"", "-", ".", "-.", "1.2.3", "1e5", "NaN", " 1", "0x1"} {
		_, ok := ParseDecimal([]byte(text))
		require.False(t, ok, text)
	}
}

// Whatever the pattern, what is accepted compiles, and matching is a property of the whole input.
func FuzzReplacer(f *testing.F) {
	for _, v := range vectors[regexVector](f, "regex.jsonl") {
		f.Add(v.Pattern, v.Replacement, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, replacement, input string) {
		r, err := NewReplacer(pattern, replacement)
		if err != nil || !Printable([]byte(input)) {
			return
		}
		out, ok := r.Replace(input)
		if again, same := r.Replace(input); again != out || same != ok {
			t.Fatalf("%q on %q: %q, then %q", pattern, input, out, again)
		}
		if !ok && out != "" {
			t.Fatalf("no match gives %q", out)
		}
	})
}
