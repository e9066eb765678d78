package routing

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// All problems are reported at once, also what the router finds, with the places where the values come from.
//
// Bug (configuration): What the router refuses was reported only when everything else was right, and without its place.
// Cost: a configuration with six mistakes took three attempts.
func TestLoadReportsAllProblems(t *testing.T) {
	_, err := Load(config.Options{Environ: []string{
		"CDC_OUTBOX_LOG_LEVEL=loud", "CDC_OUTBOX_ROUTER_TOPIC=${bogus}", "CDC_OUTBOX_ROUTER_TOPIC_REGEX=(",
		"CDC_OUTBOX_ROUTER_STATIC_HEADERS=a", "CDC_OUTBOX_ROUTER_COLUMN_HEADERS=x:",
		`CDC_OUTBOX_ROUTER_JSON_COLUMNS={"a": "b"}`,
	}})
	var problems config.Problems
	require.True(t, errors.As(err, &problems), err)
	var keys, places []string
	for _, p := range problems {
		keys, places = append(keys, p.Key), append(places, p.Where)
	}
	require.ElementsMatch(t, []string{
		"log.level", "router.topic", "router.topic_regex", "router.static_headers", "router.column_headers",
		"router.json_columns",
	}, keys)
	require.Contains(t, places, "CDC_OUTBOX_ROUTER_STATIC_HEADERS")
}

// TestLoadOfHostileValues: whatever a key holds, alone and beside another mistake, what the router finds is reported
// once, and nothing crashes.
func TestLoadOfHostileValues(t *testing.T) {
	for _, f := range config.Fields() {
		if strings.HasPrefix(f.Key, "router.") || strings.HasPrefix(f.Key, "postgres.") {
			t.Run(f.Key, func(t *testing.T) {
				t.Parallel()
				loadHostileValues(t, f.Env)
			})
		}
	}
}

func loadHostileValues(t *testing.T, env string) {
	besides := [][]string{
		nil,
		{"CDC_OUTBOX_ROUTER_PRESET=debezium"},
		{"CDC_OUTBOX_ROUTER_TOPIC=${bogus}"},
		{"CDC_OUTBOX_ROUTER_PRESET=bogus", "CDC_OUTBOX_ROUTER_TOPIC_REGEX=("},
	}
	for i, value := range []string{
		"", " ", "x", "(", "${", "${x}", "-1", "0", ":", "a:b", "a:partition", "{}", "[]", "null", `{"a": "b"}`,
		`{"a": ""}`, `["a", "a"]`, "a,a", "a=b", "\xff", "\x00", "true", "1e99", "debezium", "@", "../x",
	} {
		beside := besides
		if testing.Short() {
			beside = besides[i%len(besides):][:1] // all pairs take seconds
		}
		for _, beside := range beside {
			_, err := Load(config.Options{Environ: append([]string{env + "=" + value}, beside...)})
			var problems config.Problems
			if !errors.As(err, &problems) {
				continue
			}
			seen := map[config.Problem]bool{}
			for _, p := range problems {
				require.False(t, seen[p], "%s=%q beside %v: %s", env, value, beside, p)
				seen[p] = true
			}
		}
	}
}
