package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert/webhook"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/audit"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/forward"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/runbook"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// describer notes the names of what is registered, also of vectors that have no value yet.
type describer struct{ names map[string]bool }

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (d describer) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 100)
	c.Describe(ch)
	close(ch)
	for desc := range ch {
		d.names[fqName.FindStringSubmatch(desc.String())[1]] = true
	}
	return nil
}

func (d describer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = d.Register(c) // never fails
	}
}

func (d describer) Unregister(prometheus.Collector) bool { return false }

var typeLine = regexp.MustCompile(`(?m)^# TYPE (\S+) `)

// metricNames is every metric of the process, of consumers, and of the audit's file.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	d := describer{map[string]bool{}}
	telemetry.NewMetrics(d).Watch(telemetry.Gauges{})
	telemetry.NewMetrics(d).WatchPolling(telemetry.PollingGauges{})
	telemetry.NewMetrics(d).WatchStandbys(func() time.Duration { return 0 })
	telemetry.BuildInfo(d, "", "", "")
	telemetry.WatchAlerts(d, func() map[string]string { return nil })
	_, err := slotmonitor.New(slotmonitor.Config{DSN: func() (string, error) { return "", nil }, Registerer: d})
	require.NoError(t, err)
	webhook.New(webhook.Config{Registerer: d})
	inbox.NewMetrics(d)
	forward.NewMetrics(d)
	for _, m := range typeLine.FindAllStringSubmatch((&audit.Report{}).Prometheus(), -1) {
		d.names[m[1]] = true
	}
	_, err = traces.New(traces.Config{
		Settings: traces.Settings{URL: "http://127.0.0.1:1"}, Registerer: d, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	_, err = kafka.New(kafka.Config{
		Cluster: wire.Cluster{Brokers: []string{"127.0.0.1:9092"}}, Registerer: d,
		Callbacks: sink.Callbacks{Acked: func(sink.Delivery) {}},
	})
	require.NoError(t, err)
	return d.names
}

var metric = regexp.MustCompile(`\b(?:up|` + telemetry.Namespace + `_[a-z0-9_]+)\b`)

var documented = regexp.MustCompile(`\b` + telemetry.Namespace + `_[a-z0-9_]+_(?:total|seconds|bytes|rows|lsn)\b`)

// TestPagesNameMetricsThatExist: an operator who looks for a name that is not there sees nothing, which looks healthy.
//
// Bug (monitor): docs/scaling.md named a metric that does not exist. Cost: a graph that stays empty.
func TestPagesNameMetricsThatExist(t *testing.T) {
	names := metricNames(t)
	files, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	seen := 0
	for _, file := range files {
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range documented.FindAllString(string(page), -1) {
			require.True(t, names[name], "%s names %s", file, name)
			seen++
		}
	}
	require.Positive(t, seen)
}

func TestDashboardsShowMetricsThatExist(t *testing.T) {
	names := metricNames(t)
	names["up"] = true // Prometheus's own
	files, err := filepath.Glob("grafana/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		var d struct {
			Panels []struct {
				ID         int
				Title      string
				Type       string
				Datasource struct{ UID string }
				Targets    []struct{ Expr string }
			}
		}
		require.NoError(t, json.Unmarshal(b, &d), path)
		ids := map[int]bool{}
		for _, p := range d.Panels {
			require.False(t, ids[p.ID], "%s: two panels with id %d", path, p.ID)
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			require.Equal(t, datasourceUID(t), p.Datasource.UID, p.Title)
			require.NotEmpty(t, p.Targets, p.Title)
			for _, target := range p.Targets {
				requireKnown(t, names, target.Expr, path+", panel "+p.Title)
			}
		}
	}
}

func TestAlertsWatchMetricsThatExist(t *testing.T) {
	var prometheusYML struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	readYAML(t, "prometheus/prometheus.yml", &prometheusYML)
	require.NotEmpty(t, prometheusYML.RuleFiles)
	names := metricNames(t)
	names["up"] = true // Prometheus's own
	for _, path := range prometheusYML.RuleFiles {
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert       string
					Expr        string
					Annotations map[string]string
				}
			}
		}
		readYAML(t, filepath.Join("prometheus", path), &rules)
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				require.NotEmpty(t, r.Alert)
				require.NotEmpty(t, r.Annotations["summary"], r.Alert)
				requireKnown(t, names, r.Expr, "alert "+r.Alert)
				requireRunbook(t, r.Annotations["runbook_url"], r.Alert)
			}
		}
	}
}

// requireRunbook fails unless the link leads to a section of docs/runbook.md.
func requireRunbook(t *testing.T, link, alert string) {
	t.Helper()
	anchor, ok := strings.CutPrefix(link, runbook.Section(runbook.Published, ""))
	require.True(t, ok, "%s: %s", alert, link)
	if anchor == "{{ $labels.alert }}" {
		return // TestRunbookHasASectionForEachAlert
	}
	page, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	require.Contains(t, strings.ToLower(string(page)), "\n### "+anchor+"\n", "%s leads nowhere", alert)
}

// The command in docs/monitor.md that makes the rules lead elsewhere has to find what they say.
func TestRunbookOfRulesCanBeReplaced(t *testing.T) {
	page, err := os.ReadFile("../docs/monitor.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "\nsed -i 's|"+runbook.Section(runbook.Published, "")+"|")
}

func TestRunbookHasASectionForEachAlert(t *testing.T) {
	page, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	for _, alert := range slices.Concat(slotmonitor.Rules(), diagnose.Rules(), diagnose.PollingRules()) {
		require.Contains(t, string(page), "\n### "+alert+"\n")
	}
}

// requireKnown fails unless the expression asks for metrics, and only for ones that exist.
func requireKnown(t *testing.T, names map[string]bool, expr, where string) {
	t.Helper()
	found := metric.FindAllString(expr, -1)
	require.NotEmpty(t, found, "%s asks for no metric: %s", where, expr)
	for _, m := range found {
		require.True(t, known(names, m), "%s: no metric is called %s", where, m)
	}
}

// known takes the series of a histogram for the histogram.
func known(names map[string]bool, m string) bool {
	if names[m] {
		return true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(m, suffix); ok && names[base] {
			return true
		}
	}
	return false
}

func datasourceUID(t *testing.T) string {
	t.Helper()
	var p struct {
		Datasources []struct{ UID, URL string }
	}
	readYAML(t, "grafana/provisioning/datasources/prometheus.yml", &p)
	require.Len(t, p.Datasources, 1)
	return p.Datasources[0].UID
}

func TestGrafanaFindsItsDashboards(t *testing.T) {
	var p struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, "grafana/provisioning/dashboards/dashboards.yml", &p)
	require.Len(t, p.Providers, 1)
	mounts := readCompose(t).Services["grafana"].Volumes
	require.Contains(t, mounts, "./deploy/grafana/dashboards:"+p.Providers[0].Options.Path+":ro")
}

var metricInPage = regexp.MustCompile("`([a-z0-9_]+)(?:\\{[a-z,]+\\})?`")

func TestMonitorPageListsEveryMetric(t *testing.T) {
	b, err := os.ReadFile("../docs/monitor.md")
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, line := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		names, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for _, m := range metricInPage.FindAllStringSubmatch(names, -1) {
			listed[telemetry.Namespace+"_"+m[1]] = true
		}
	}
	names := metricNames(t)
	for name := range names {
		require.True(t, listed[name], "docs/monitor.md does not list %s", name)
	}
	// And nothing else: each name with the prefix in these pages is that of a metric.
	for _, page := range []string{"deploy.md", "monitor.md", "runbook.md"} {
		b, err := os.ReadFile(filepath.Join("../docs", page))
		require.NoError(t, err)
		for _, m := range metric.FindAllString(string(b), -1) {
			exists := m == "up" || strings.HasSuffix(m, "_") || notMetrics[m] || known(names, m)
			require.True(t, exists, "docs/%s names %s, which is not a metric", page, m)
		}
	}
}

// notMetrics begin with the prefix all the same.
var notMetrics = map[string]bool{"cdc_outbox_slots": true, "cdc_outbox_decisions": true}

func TestMonitorPageListsEveryPrometheusRule(t *testing.T) {
	page, err := os.ReadFile("../docs/monitor.md")
	require.NoError(t, err)
	rules, err := os.ReadFile("prometheus/rules.yml")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, m := range alerts {
		require.Contains(t, string(page), "| `"+m[1]+"` |")
	}
}
