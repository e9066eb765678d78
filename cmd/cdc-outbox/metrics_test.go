package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// documentedCounters are the names, without prefix and labels, that the first table of docs/monitor.md, "Metrics", has.
func documentedCounters(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/monitor.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n| metric, with the prefix `cdc_outbox_` |")
	require.True(t, found)
	table, _, found = strings.Cut(table, "\n| metric of a consumer ")
	require.True(t, found)
	var names []string
	for _, m := range regexp.MustCompile("`([a-z_]+_total)").FindAllStringSubmatch(table, -1) {
		names = append(names, m[1])
	}
	require.Greater(t, len(names), 12)
	return names
}

// TestCountersExistFromTheStart: increase() over a series that begins with its first event does not see that event, so
// each documented counter has its series before anything happened.
//
// Bug (monitor): `producer_retries_total` and, for rows that an operator passes to the dead-letter topic,
// `dead_letters_total` had no series before their first event. Cost: an alert on increase() misses it.
func TestCountersExistFromTheStart(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "order.events")
	b.env = append(b.env, "CDC_OUTBOX_DELIVERY=exactly_once", "CDC_OUTBOX_MONITOR_WEBHOOK=http://127.0.0.1:1",
		"CDC_OUTBOX_TRACES_ENDPOINT=http://127.0.0.1:1")
	res := invoke(t, b.env, "setup", "--table")
	require.Equal(t, 0, res.code, res.all())
	relay := start(t, b.env)
	relay.awaitReady(http.StatusOK)
	relay.awaitAnswer("/metrics", "cdc_outbox_slot_spilled_bytes_total{") // with the monitor's first figures
	_, metrics := relay.get("/metrics")

	for _, name := range documentedCounters(t) {
		switch name {
		case "events_published_total": // of topics, which rows name
			require.NotContains(t, metrics, "\ncdc_outbox_"+name+"{")
		case "standby_wait_seconds_total": // "absent without that key"
		default:
			require.Regexp(t, `(?m)^cdc_outbox_`+name+`[{ ]`, metrics)
		}
	}
	for name, values := range map[string][]string{
		`dead_letters_total{reason`: reasons(), `events_failed_total{reason`: reasons(),
		`producer_retries_total{error`:       retries(),
		`producer_transactions_total{result`: {"committed", "aborted"},
		`reconnects_total{side`:              {"postgres", "kafka"},
		`outbox_changes_total{operation`:     {"update", "delete", "truncate"},
		`webhook_requests_total{result`:      {"sent", "failed", "refused"},
		`trace_spans_total{result`:           {"exported", "limited", "dropped", "failed"},
	} {
		for _, value := range values {
			require.Contains(t, metrics, "\ncdc_outbox_"+name+`="`+value+`"`)
		}
	}
}

func reasons() (names []string) {
	for _, reason := range router.Reasons() {
		names = append(names, string(reason))
	}
	return names
}

func retries() []string {
	names := []string{"CONNECTION_LOST", "UNKNOWN_SERVER_ERROR"}
	for _, v := range wire.Verdicts {
		if v.Action != wire.Done {
			names = append(names, v.Name)
		}
	}
	return names
}
