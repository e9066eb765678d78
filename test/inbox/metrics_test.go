package inbox_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

const (
	deliveries = "cdc_outbox_inbox_deliveries_total"
	pruned     = "cdc_outbox_inbox_pruned_total"
	prunedAt   = "cdc_outbox_inbox_pruned_timestamp_seconds"
)

// samples returns the values of a metric by the label result, "" for a metric without that label. All of them must be
// of the consumer billing.
func samples(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			require.Equal(t, "billing", labels["consumer"])
			values[labels["result"]] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

func sample(t *testing.T, registry *prometheus.Registry, name, result string) float64 {
	t.Helper()
	values := samples(t, registry, name)
	require.Contains(t, values, result, name)
	return values[result]
}
