package rules

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/pkg/labels"
)

// TestAlertmanagerExample reads the example with Alertmanager's own parser. Each alert that it names is a rule, and no
// inhibition leaves nothing to page: a source is never a target of itself.
func TestAlertmanagerExample(t *testing.T) {
	cfg, err := config.LoadFile(filepath.Join(deploy, "prometheus", "alertmanager.example.yml"))
	if err != nil {
		t.Fatal(err)
	}
	names := alertNames(t, []string{filepath.Join(deploy, "prometheus", "rules.yml")})
	if len(cfg.InhibitRules) == 0 {
		t.Fatal("no inhibit_rules")
	}
	for i, rule := range cfg.InhibitRules {
		for _, m := range slices.Concat(rule.SourceMatchers, rule.TargetMatchers) {
			if m.Name != "alertname" {
				continue
			}
			for _, name := range regexp.MustCompile(`\|`).Split(m.Value, -1) {
				if !slices.Contains(names, name) {
					t.Errorf("inhibit_rules[%d] names %s, which is not a rule", i, name)
				}
			}
		}
		for _, name := range names {
			for _, severity := range []string{"critical", "warning"} {
				for _, alert := range []string{"", "row_halted", "slot_extended"} {
					if matches(rule.SourceMatchers, name, severity, alert) &&
						matches(rule.TargetMatchers, name, severity, alert) {
						t.Errorf("inhibit_rules[%d]: %s %s silences itself", i, name, severity)
					}
				}
			}
		}
	}
}

func matches(all []*labels.Matcher, name, severity, alert string) bool {
	for _, m := range all {
		value := map[string]string{"alertname": name, "severity": severity, "alert": alert}[m.Name]
		if !m.Matches(value) {
			return false
		}
	}
	return true
}
