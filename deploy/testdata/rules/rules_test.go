// Package rules checks deploy/prometheus and deploy/grafana with Prometheus's own parser: what is misspelled there
// would be noticed when it should have fired.
package rules

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const deploy = "../.."

// TestRules parses expressions, labels and the templates in annotations, as Prometheus does when it loads the file.
func TestRules(t *testing.T) {
	groups, errs := rulefmt.ParseFile(filepath.Join(deploy, "prometheus", "rules.yml"), false)
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) == 0 || len(groups.Groups[0].Rules) < 5 {
		t.Fatal("no rules")
	}
}

func TestDashboards(t *testing.T) {
	for f, b := range dashboards(t) {
		for _, p := range panels(t, b) {
			for _, target := range p.Targets {
				if _, err := parser.ParseExpr(filled(target.Expr)); err != nil {
					t.Errorf("%s, panel %s: %v", f, p.Title, err)
				}
			}
		}
	}
}
