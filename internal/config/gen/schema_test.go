package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// TestSchemaHasEveryKey: with its text, its default, and each word that it allows. A default is a value that the schema
// takes, also in the form of a variable.
func TestSchemaHasEveryKey(t *testing.T) {
	docs, err := fieldDocs("..")
	require.NoError(t, err)
	text, err := schema(docs)
	require.NoError(t, err)
	var top map[string]any
	require.NoError(t, json.Unmarshal(text, &top))
	for _, f := range config.Fields() {
		at := top
		for _, name := range strings.Split(f.Key, ".") {
			require.Equal(t, false, at["additionalProperties"], "%s: above %s", f.Key, name)
			at = at["properties"].(map[string]any)[name].(map[string]any)
		}
		require.Equal(t, f.Doc, at["description"], f.Key)
		require.Equal(t, f.Default != "", at["default"] != nil, f.Key)
		for _, word := range f.OneOf {
			require.Contains(t, at["enum"], word, f.Key)
		}
		pattern := map[string]string{
			"duration": durationPattern, "size": sizePattern, "share": sharePattern, "number": numberPattern,
			"yes/no": boolPattern,
		}[f.Type]
		if pattern != "" && f.Default != "" {
			require.Regexp(t, pattern, f.Default, f.Key)
		}
	}
}

func TestPatterns(t *testing.T) {
	for pattern, texts := range map[string]struct{ good, bad string }{
		durationPattern: {"5s 500ms 1m30s 1.5h 0 1h0m0s", "5 s5 5sec 5,5s 1d"},
		sizePattern:     {"32MiB 500MB 1kB 7 1gib 12B", "1.5MiB 32Mi MiB 3Gb/s -1B"},
		sharePattern:    {"1% 0.5% 0.01 1", "one %1 1%%"},
		numberPattern:   {"0 12 -1", "1.5 a 1e3"},
		boolPattern:     {"true False YES no on OFF 1 0 t n", "perhaps 2 truefalse y/n"},
	} {
		for _, text := range strings.Fields(texts.good) {
			require.Regexp(t, regexp.MustCompile(pattern), text)
		}
		for _, text := range strings.Fields(texts.bad) {
			require.NotRegexp(t, regexp.MustCompile(pattern), text)
		}
	}
}
