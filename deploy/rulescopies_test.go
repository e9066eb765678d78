package deploy

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the copies of prometheus/rules.yml")

const ruleHead = `# Generated from deploy/prometheus/rules.yml by make prometheusrule. Do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: cdc-outbox
  labels:
    app.kubernetes.io/part-of: cdc-outbox
spec:
`

// TestPrometheusRule: the operator's resource and the chart's file, since Helm reads only files of the chart, are
// rules.yml and nothing more.
func TestPrometheusRule(t *testing.T) {
	text, err := os.ReadFile("prometheus/rules.yml")
	require.NoError(t, err)
	_, groups, found := strings.Cut(string(text), "\ngroups:\n")
	require.True(t, found)
	groups = "groups:\n" + groups
	indented := ""
	for line := range strings.Lines(groups) {
		if strings.TrimSpace(line) != "" {
			indented += "  "
		}
		indented += line
	}
	for path, want := range map[string]string{
		"kubernetes/components/prometheus/prometheusrule.yaml": ruleHead + indented,
		"helm/cdc-outbox/files/rules.yml":                      groups,
	} {
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is stale; run: make prometheusrule", path)
	}
}
