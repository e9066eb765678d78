package rules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// panel is what the tests ask of one.
type panel struct {
	Title   string
	Type    string
	Targets []struct{ Expr string }
}

func dashboards(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "grafana", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[f] = b
	}
	return out
}

func panels(t *testing.T, b []byte) []panel {
	t.Helper()
	var d struct{ Panels []panel }
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

// filled puts values in the place of Grafana's variables.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(expr)
}

// TestSchema reads each dashboard with the types that Grafana publishes for its dashboards and panels: a field that
// they do not have, a value that is not a member of its enumeration or has another type would be ignored by Grafana, or
// break the panel.
func TestSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	for f, b := range dashboards(t) {
		var d dashboard.Dashboard
		if err := d.UnmarshalJSONStrict(b); err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		// The check can fail.
		var broken dashboard.Dashboard
		if broken.UnmarshalJSONStrict([]byte(strings.Replace(string(b), `"fieldConfig"`, `"fieldConfiguration"`, 1))) ==
			nil {
			t.Errorf("%s: a field that does not exist passes", f)
		}
	}
}
