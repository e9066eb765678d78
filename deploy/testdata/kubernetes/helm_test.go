package kubernetes

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// template renders the chart as `helm template NAME` does, with the check of values.schema.json.
func template(t *testing.T, name string, values map[string]any) ([]object, error) {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return render(t, c, name, values)
}

func render(t *testing.T, c *chart.Chart, name string, values map[string]any) ([]object, error) {
	t.Helper()
	in, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{
		Name: name, Namespace: "default", IsInstall: true,
	}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(c, in)
	if err != nil {
		return nil, err
	}
	var all []object
	for path, text := range files {
		if strings.HasSuffix(path, ".yaml") && strings.TrimSpace(text) != "" {
			all = append(all, objects(t, []byte(text))...)
		}
	}
	return all, nil
}

// TestChartIsTheBase: rendered with its defaults, the chart is the base, but for what only Helm or only kustomize adds.
func TestChartIsTheBase(t *testing.T) {
	all, err := template(t, "cdc-outbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, normal(t, kustomize(t, "base")), normal(t, all))
}

// TestChartIsTheOverlay: with the values for Strimzi, the chart is that overlay without Strimzi's own resources.
func TestChartIsTheOverlay(t *testing.T) {
	var values map[string]any
	if err := yaml.UnmarshalStrict(read(t, deploy+"/helm/strimzi.values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	all, err := template(t, "cdc-outbox", values)
	if err != nil {
		t.Fatal(err)
	}
	overlay := normal(t, kustomize(t, "overlays/strimzi"))
	for id := range overlay {
		if strings.HasPrefix(id, "KafkaTopic/") || strings.HasPrefix(id, "KafkaUser/") {
			delete(overlay, id)
		}
	}
	same(t, overlay, normal(t, all))
}

// TestChartWithEverything: each value that adds something renders objects of the API, with restricted pods.
func TestChartWithEverything(t *testing.T) {
	var values map[string]any
	if err := yaml.UnmarshalStrict(read(t, "everything.values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	all, err := template(t, "orders", values)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		strict(t, o)
		if !strings.HasPrefix(o.GetName(), "orders-cdc-outbox") {
			t.Errorf("%s has not the release in its name", o.id())
		}
		if pod := podOf(t, o); pod != nil {
			restricted(t, o.id(), pod)
		}
	}
	named(t, all, "PrometheusRule/orders-cdc-outbox")
	alone, err := template(t, "orders", map[string]any{
		"monitor":       map[string]any{"enabled": false},
		"relay":         map[string]any{"replicas": 1},
		"networkPolicy": map[string]any{"enabled": false},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(alone) != 3 {
		t.Errorf("one replica alone has %d objects: the relay, its account and its configuration are three", len(alone))
	}
}

// TestChartQuotesNames: a release, a class or an interval whose name YAML takes for a number or a boolean is a text.
//
// Bug (monitor): A Helm release named like a number or a boolean rendered labels that are not text. Cost: an
// installation that Kubernetes refuses.
func TestChartQuotesNames(t *testing.T) {
	for _, name := range []string{"1234", "1e3", "on", "true"} {
		all, err := template(t, name, map[string]any{
			"priorityClassName": name, "prometheus": map[string]any{"enabled": true, "interval": name},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			strict(t, o)
		}
	}
}

// TestValuesAreChecked: values.schema.json names every value, and refuses what the chart does not have.
func TestValuesAreChecked(t *testing.T) {
	for text, why := range map[string]string{
		"replicas: 3":                                       "replicas",
		"relay: {replicas: two}":                            "replicas",
		"monitor: {enabeld: true}":                          "enabeld",
		"secrets: [{name: postgres}]":                       "secretName",
		"relay: {secrets: [{name: config, secretName: a}]}": "name",
		"networkPolicy: {from: []}":                         "from",
	} {
		var values map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := template(t, "cdc-outbox", values); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// normal is each object as a tree, without what may differ: kustomize's hash in the name of the ConfigMap and its
// namespace, Helm's labels and its checksum of the configuration, and the form of the configuration's text.
func normal(t *testing.T, all []object) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, o := range all {
		tree := o.Object
		metadata := tree["metadata"].(map[string]any)
		delete(metadata, "namespace")
		for _, l := range []map[string]any{metadata, podMetadata(tree)} {
			if labels, ok := l["labels"].(map[string]any); ok {
				delete(labels, "helm.sh/chart")
				delete(labels, "app.kubernetes.io/managed-by")
			}
			if notes, ok := l["annotations"].(map[string]any); ok {
				delete(notes, "checksum/config")
				if len(notes) == 0 {
					delete(l, "annotations")
				}
			}
		}
		if o.GetKind() == "ConfigMap" {
			metadata["name"] = withoutHash(o.GetName())
			var config any
			text := tree["data"].(map[string]any)["cdc-outbox.yaml"].(string)
			if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
				t.Fatal(err)
			}
			tree["data"] = config
		}
		for _, v := range volumesOf(tree) {
			if c, ok := v.(map[string]any)["configMap"].(map[string]any); ok {
				c["name"] = withoutHash(c["name"].(string))
			}
		}
		out[o.GetKind()+"/"+metadata["name"].(string)] = sorted(tree)
	}
	return out
}
