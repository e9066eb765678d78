package avro

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpus is what fastavro 1.13.1 encoded of random documents by random schemas; testdata/corpus.py makes it.
func corpus(t testing.TB) (all []struct {
	Schema            json.RawMessage
	Document, Encoded string
},
) {
	text, err := os.ReadFile("testdata/fastavro.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

func TestAsFastavro(t *testing.T) {
	all := corpus(t)
	require.Len(t, all, 250)
	for _, c := range all {
		s := compile(t, string(c.Schema))
		got, err := s.Append(nil, nil, []byte(c.Document))
		require.NoError(t, err, "%s %s", c.Schema, c.Document)
		require.Equal(t, c.Encoded, hex.EncodeToString(got), "%s %s", c.Schema, c.Document)
		document, err := s.JSON(got)
		require.NoError(t, err)
		again, err := s.Append(nil, nil, document)
		require.NoError(t, err, "%s %s", c.Schema, document)
		require.Equal(t, got, again, "%s %s", c.Schema, document)
	}
}

// Any schema and document is encoded or refused, and what was encoded is read as a document with the same bytes. Bytes
// that are not a value are refused.
func FuzzAppend(f *testing.F) {
	for _, c := range corpus(f)[:60] {
		f.Add(string(c.Schema), []byte(c.Document), []byte(c.Encoded))
	}
	f.Add(order, []byte(usual), []byte{})
	f.Fuzz(func(t *testing.T, schema string, document, encoded []byte) {
		s, err := Compile(schema, nil)
		if err != nil {
			return
		}
		_, _ = s.JSON(encoded)
		got, err := s.Append(nil, nil, document)
		if err != nil {
			return
		}
		shown, err := s.JSON(got)
		require.NoError(t, err)
		require.True(t, json.Valid(shown), "%s", shown)
		again, err := s.Append(nil, nil, shown)
		require.NoError(t, err, "%s", shown)
		require.True(t, bytes.Equal(got, again), "%s: %x %x", shown, got, again)
	})
}
