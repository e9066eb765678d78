package properties

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vectors are what Java did.
func TestVectors(t *testing.T) {
	f, err := os.Open("../../../testdata/java/properties.jsonl")
	require.NoError(t, err)
	defer f.Close()
	count := 0
	for lines := bufio.NewScanner(f); lines.Scan(); count++ {
		var v struct {
			Text       string
			Properties map[string]string
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		all, err := Parse([]byte(v.Text))
		require.NoError(t, err, "%q", v.Text)
		got := map[string]string{}
		for _, p := range all {
			got[string(p.Key)] = string(p.Value)
		}
		require.Equal(t, v.Properties, got, "%q", v.Text)
		require.Len(t, all, len(got))
	}
	require.NotZero(t, count)
}

func TestMalformedEscapes(t *testing.T) {
	for _, text := range []string{`a=\u12`, `a=\u12x4`, `a=\ud83d`, `a=\ud83dx`, `a=\ude00`} {
		_, err := Parse([]byte(text))
		require.Error(t, err, text)
	}
}

func TestOrder(t *testing.T) {
	all, err := Parse([]byte("b=1\na=2\nb=3\n"))
	require.NoError(t, err)
	require.Equal(t, []Property{{[]byte("b"), []byte("3")}, {[]byte("a"), []byte("2")}}, all)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a=b\\\n c\n#x\nd:\\u0041"))
	f.Fuzz(func(t *testing.T, text []byte) {
		original := string(text)
		all, _ := Parse(text)
		if string(text) != original {
			t.Fatal("the source was changed")
		}
		seen := map[string]bool{}
		for _, p := range all {
			if seen[string(p.Key)] {
				t.Fatalf("the key %q twice", p.Key)
			}
			seen[string(p.Key)] = true
		}
	})
}
