package routing

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// All problems are reported at once, also what the router finds, with the places where the values come from.
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
