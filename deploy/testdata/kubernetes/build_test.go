package kubernetes

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	deploy    = "../.."
	manifests = deploy + "/kubernetes"
	chartDir  = deploy + "/helm/cdc-outbox"
)

// kustomizations are all that `kubectl apply -k` may be given.
var kustomizations = []string{"base", "setup", "overlays/plain", "overlays/strimzi", "overlays/cloudnativepg"}

// object is one document, as text and as a tree.
type object struct {
	unstructured.Unstructured
	text []byte
}

func (o object) id() string { return o.GetKind() + "/" + o.GetName() }

// kustomize builds a directory as `kubectl kustomize` does.
func kustomize(t *testing.T, dir string) []object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(
		filesys.MakeFsOnDisk(), filepath.Join(manifests, dir))
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// objects splits a stream of documents.
func objects(t *testing.T, stream []byte) (all []object) {
	t.Helper()
	for _, text := range bytes.Split(append([]byte("\n"), stream...), []byte("\n---\n")) {
		o := object{text: text}
		if err := yaml.UnmarshalStrict(text, &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		t.Fatal("there is no object")
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPlainNeedsNoOperator: overlays/plain has types of Kubernetes alone, so it can be applied to a cluster without
// anything else.
func TestPlainNeedsNoOperator(t *testing.T) {
	for _, o := range kustomize(t, "overlays/plain") {
		switch group, _, _ := strings.Cut(o.GetAPIVersion(), "/"); group {
		case "v1", "apps", "policy", "networking.k8s.io":
		default:
			t.Errorf("%s is of %s", o.id(), group)
		}
	}
}
