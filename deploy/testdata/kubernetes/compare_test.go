package kubernetes

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var hash = regexp.MustCompile(`-[a-z0-9]{10}$`)

// withoutHash is the name of a ConfigMap without what kustomize appends.
func withoutHash(name string) string { return hash.ReplaceAllString(name, "") }

func podOfTree(tree map[string]any) map[string]any {
	spec, _ := tree["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	return template
}

func podMetadata(tree map[string]any) map[string]any {
	metadata, _ := podOfTree(tree)["metadata"].(map[string]any)
	return metadata
}

func volumesOf(tree map[string]any) []any {
	spec, _ := podOfTree(tree)["spec"].(map[string]any)
	volumes, _ := spec["volumes"].([]any)
	return volumes
}

// sorted puts lists whose order has no meaning into one order: a patch of kustomize appends or prepends.
func sorted(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, sub := range v {
			v[key] = sorted(sub)
			if list, ok := sub.([]any); ok && slices.Contains([]string{"env", "volumes", "volumeMounts"}, key) {
				slices.SortFunc(list, func(a, b any) int {
					return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
				})
			}
		}
	case []any:
		for i, sub := range v {
			v[i] = sorted(sub)
		}
	}
	return value
}

// same compares object by object, as text, which shows the difference.
func same(t *testing.T, want, got map[string]any) {
	t.Helper()
	if w, g := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(w, g) {
		t.Fatalf("kustomize has %v, Helm has %v", w, g)
	}
	for id := range want {
		w, err := yaml.Marshal(want[id])
		if err != nil {
			t.Fatal(err)
		}
		g, err := yaml.Marshal(got[id])
		if err != nil {
			t.Fatal(err)
		}
		if string(w) != string(g) {
			t.Errorf("%s differs; kustomize:\n%s\nHelm:\n%s", id, w, g)
		}
	}
}
