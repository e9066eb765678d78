package rules

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	prometheus "github.com/prometheus/prometheus/rules"
	"gopkg.in/yaml.v3"
)

// unitTests is the part of promtool's format for tests of rules that firing.yml uses; `promtool test rules firing.yml`
// does the same. https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
type unitTests struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []struct {
		Name        string
		Interval    model.Duration
		InputSeries []struct{ Series, Values string } `yaml:"input_series"`
		Alerts      []struct {
			EvalTime  model.Duration `yaml:"eval_time"`
			Alertname string
			Expected  []struct {
				Labels      map[string]string `yaml:"exp_labels"`
				Annotations map[string]string `yaml:"exp_annotations"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// TestFiring runs each rule over series at which it must fire, and over some at which it must not, with Prometheus's
// own engine and rule manager: threshold, `for`, labels and the text of the annotations.
//
// Bug (monitor): The rule `CDCOutboxMonitorBlind` was satisfied by another process's slots. Cost: of two connectors,
// one whose monitor is blind raised no alarm.
//
// Bug (monitor): The rule `CDCOutboxEventsFailed` saw nothing in a series that begins with its first failure. Cost: the
// first event that a topic refused raised no alarm.
//
// Bug (monitor): `CDCOutboxAlert` gave every alert the severity critical, also where another rule fired for the same
// fact. Cost: warnings woke people, and a slot that ran out paged twice.
//
// Bug (monitor): `CDCOutboxDown` needs a target. Cost: a connector that was scaled to zero raised no alarm.
//
// Bug (monitor): `CDCOutboxSlotUnread` compared slots of one name on different servers. Cost: a slot that holds back
// nothing counted as unread.
//
// Bug (monitor): CDCOutboxMonitorBlind took `forward` for a process with a monitor. Cost: an alert that never ends.
func TestFiring(t *testing.T) {
	b, err := os.ReadFile("firing.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file unitTests
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	fired, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fired[a.Alertname] = true
			} else {
				silent[a.Alertname] = true
			}
		}
		t.Run(test.Name, func(t *testing.T) {
			var load strings.Builder
			fmt.Fprintf(&load, "load %s\n", test.Interval)
			for _, s := range test.InputSeries {
				fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
			}
			var times []time.Duration
			var names []string
			for _, a := range test.Alerts {
				names = append(names, a.Alertname)
				times = append(times, time.Duration(a.EvalTime))
			}
			got := evaluate(t, load.String(), file.RuleFiles, time.Duration(file.EvaluationInterval), 0, times, names)
			for _, a := range test.Alerts {
				var want []string
				for _, e := range a.Expected {
					l := map[string]string{labels.AlertName: a.Alertname}
					for k, v := range e.Labels {
						l[k] = v
					}
					want = append(want, labels.FromMap(l).String()+" "+labels.FromMap(e.Annotations).String())
				}
				slices.Sort(want)
				if have := got[time.Duration(a.EvalTime)][a.Alertname]; !slices.Equal(want, have) {
					t.Errorf("%s at %s\nwant %s\ngot  %s", a.Alertname, a.EvalTime, strings.Join(want, "\n     "),
						strings.Join(have, "\n     "))
				}
			}
		})
	}
	for _, name := range alertNames(t, file.RuleFiles) {
		if !fired[name] || !silent[name] {
			t.Errorf("%s: there is a case in which it fires: %v; one in which it does not: %v", name, fired[name],
				silent[name])
		}
	}
}

// evaluate returns the firing alerts by time and name, as labels and annotations, of the groups that hold one of names.
func evaluate(t *testing.T, load string, files []string, interval, from time.Duration, times []time.Duration,
	names []string,
) map[time.Duration]map[string][]string {
	t.Helper()
	suite, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := suite.Close(); err != nil {
			t.Error(err)
		}
	}()
	manager := prometheus.NewManager(&prometheus.ManagerOptions{
		QueryFunc: prometheus.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), Appendable: suite.Storage(),
		Context: t.Context(), NotifyFunc: func(context.Context, string, ...*prometheus.Alert) {},
		Logger: promslog.NewNopLogger(),
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, files...)
	for _, err := range errs {
		t.Fatal(err)
	}
	out := map[time.Duration]map[string][]string{}
	for at := from; at <= slices.Max(times); at += interval {
		now := time.Unix(0, 0).UTC().Add(at)
		suite.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		firing := map[string][]string{}
		for _, g := range groups {
			if !slices.ContainsFunc(g.AlertingRules(), func(r *prometheus.AlertingRule) bool {
				return slices.Contains(names, r.Name())
			}) {
				continue
			}
			g.Eval(suite.Context(), now)
			for _, r := range g.Rules() {
				if r.LastError() != nil {
					t.Fatalf("%s at %s: %v", r.Name(), at, r.LastError())
				}
			}
			for _, r := range g.AlertingRules() {
				r.SetRestored(true)
				for _, a := range r.ActiveAlerts() {
					if a.State == prometheus.StateFiring {
						firing[r.Name()] = append(firing[r.Name()], a.Labels.String()+" "+a.Annotations.String())
					}
				}
				slices.Sort(firing[r.Name()])
			}
		}
		if slices.Contains(times, at) {
			out[at] = firing
		}
	}
	return out
}

func alertNames(t *testing.T, files []string) (names []string) {
	t.Helper()
	for _, f := range files {
		b, err := os.ReadFile(filepath.Clean(f))
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Groups []struct{ Rules []struct{ Alert string } }
		}
		if err := yaml.Unmarshal(b, &rules); err != nil {
			t.Fatal(err)
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				names = append(names, r.Alert)
			}
		}
	}
	return names
}
