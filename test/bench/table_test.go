package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFillMarkers(t *testing.T) {
	page := "before\n<!-- bench:throughput -->\nold\n" + markerEnd +
		"between\n<!-- bench:codecs -->\nkept\n" + markerEnd + "after\n"
	all := []*series{passes(tenPerTx, napping, 200e3), passes(tenPerTx, atLeastOnce, 190e3)}
	filled := fillMarkers(page, map[string]string{"postgres": "15.18"}, all)
	require.NotContains(t, filled, "old")
	require.Contains(t, filled, "PostgreSQL 15.18")
	require.Contains(t, filled, "| cdc-outbox to Kafka | 190.0 k")
	require.Contains(t, filled, "<!-- bench:codecs -->\nkept\n"+markerEnd+"after\n", "no figures in this run")
	require.Equal(t, filled, fillMarkers(filled, map[string]string{"postgres": "15.18"}, all))
	require.Equal(t, "no marker", fillMarkers("no marker", nil, all))
}

// TestPagesHoldWhatTheCommandPrints: the tables of the pages come from `make bench-table`.
func TestPagesHoldWhatTheCommandPrints(t *testing.T) {
	for page, names := range map[string][]string{
		"../../docs/performance.md": {"throughput", "goals", "codecs"},
	} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, name := range names {
			_, rest, ok := strings.Cut(string(text), markerStart+name+" -->\n")
			require.True(t, ok, "%s has no marker %q", page, name)
			between, _, ok := strings.Cut(rest, markerEnd)
			require.True(t, ok, "%s: marker %q has no end", page, name)
			header := map[string]string{
				"throughput": throughputHeader, "goals": goalsHeader, "codecs": codecHeader,
			}[name]
			require.Contains(t, between, header, "%s, %s", page, name)
		}
	}
}

func TestFloorTakesTheBestRound(t *testing.T) {
	slowOnce := []*series{
		passes(tenPerTx, napping, 200e3, 200e3), passes(tenPerTx, neverNaps, 100e3, 100e3),
		passes(tenPerTx, ourStream, 20e3, 150e3), passes(tenPerTx, atLeastOnce, 10e3, 140e3),
	}
	require.NoError(t, belowFloor(slowOnce))
	slowOnce[2] = passes(tenPerTx, ourStream, 70e3, 60e3)
	require.ErrorContains(t, belowFloor(slowOnce), "at best 0.70 times")
	require.ErrorContains(t, belowFloor(slowOnce[:2]), "not measured")
}
