package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The notation is that of Prometheus's test language; the replay of a wrong one would test other series.
func TestRecordingIsWrittenAsSeries(t *testing.T) {
	names, err := metricsOf("../../deploy/prometheus/rules.yml")
	require.NoError(t, err)
	require.True(t, names["cdc_outbox_alert_firing"])
	r := &recording{names: names, series: map[string][]string{}}
	r.add(scrape{relayTarget, "", false, true})
	for range 3 {
		r.add(scrape{
			relayTarget, "# HELP x y\ncdc_outbox_slot_active{slot=\"a b\"} 1\n" +
				"cdc_outbox_slot_seconds_to_limit +Inf\ngo_goroutines 7\n" +
				"cdc_outbox_oldest_unconfirmed_seconds 0.12345\n", true, true,
		})
	}
	r.add(scrape{relayTarget, "cdc_outbox_slot_active{slot=\"a b\"} 0\n", true, true})
	for range 2 {
		r.add(scrape{relayTarget, "", false, false})
	}
	const labels = `{instance="connector:9464",job="cdc-outbox"`
	require.Equal(t, "cdc_outbox_oldest_unconfirmed_seconds"+labels+"} _ 0.123x2 stale _x2\n"+
		"cdc_outbox_slot_active"+labels+`,slot="a b"} _ 1x2 0 stale _`+"\n"+
		"cdc_outbox_slot_seconds_to_limit"+labels+"} _ Inf Inf Inf stale _x2\n"+
		"up"+labels+"} 0 1x3 stale _\n", r.String())
}
