package rules

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/prometheus/common/model"
)

// TestAlertmanagerTakesTheBodies reads what internal/base/alert/webhook posts to Alertmanager (its golden file) with
// the types that Alertmanager generates from its OpenAPI description, and applies what its handler asks of labels
// besides.
func TestAlertmanagerTakesTheBodies(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "internal", "base", "alert", "webhook", "testdata",
		"alertmanager.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bodies map[string]json.RawMessage
	if err := json.Unmarshal(b, &bodies); err != nil || len(bodies) < 50 {
		t.Fatalf("%d bodies, %v", len(bodies), err)
	}
	name := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	for what, body := range bodies {
		var alerts models.PostableAlerts
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&alerts); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if err := alerts.Validate(strfmt.Default); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, a := range alerts {
			labels := model.LabelSet{}
			for k, v := range a.Labels {
				labels[model.LabelName(k)] = model.LabelValue(v)
				if !name.MatchString(k) {
					t.Errorf("%s: the label %q needs UTF-8 names", what, k)
				}
			}
			annotations := model.LabelSet{}
			for k, v := range a.Annotations {
				annotations[model.LabelName(k)] = model.LabelValue(v)
			}
			checked := model.Alert{Labels: labels, Annotations: annotations}
			start, err := a.StartsAt.MarshalText()
			if err != nil || checked.StartsAt.UnmarshalText(start) != nil {
				t.Errorf("%s: startsAt", what)
			}
			if end, err := a.EndsAt.MarshalText(); err != nil || checked.EndsAt.UnmarshalText(end) != nil {
				t.Errorf("%s: endsAt", what)
			}
			if err := checked.Validate(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if a.GeneratorURL != "" {
				t.Errorf("%s: a generator's URL, which was not there", what)
			}
		}
	}
}
