package kubernetes

import (
	encoding "encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kinds are the types that an object is decoded into. A field that the type does not have is an error.
var kinds = map[string]func() any{
	"apps/v1/Deployment":                      func() any { return &apps.Deployment{} },
	"batch/v1/Job":                            func() any { return &batch.Job{} },
	"v1/ConfigMap":                            func() any { return &core.ConfigMap{} },
	"v1/ServiceAccount":                       func() any { return &core.ServiceAccount{} },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return &networking.NetworkPolicy{} },
	"policy/v1/PodDisruptionBudget":           func() any { return &policy.PodDisruptionBudget{} },
	"monitoring.coreos.com/v1/PodMonitor":     func() any { return &monitoring.PodMonitor{} },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
	"kafka.strimzi.io/v1/KafkaUser":           func() any { return &kafkaUser{} },
	"kafka.strimzi.io/v1/KafkaTopic":          func() any { return &kafkaTopic{} },
}

// What is used of Strimzi's resources, by their documentation: their schemas are in no Go module.
type (
	kafkaUser struct {
		meta.TypeMeta
		Metadata meta.ObjectMeta `json:"metadata"`
		Spec     struct {
			Authentication struct {
				Type string `json:"type"`
			} `json:"authentication"`
			Authorization struct {
				Type string `json:"type"`
				ACLs []acl  `json:"acls"`
			} `json:"authorization"`
		} `json:"spec"`
	}
	acl struct {
		Resource struct {
			Type        string `json:"type"`
			Name        string `json:"name"`
			PatternType string `json:"patternType"`
		} `json:"resource"`
		Operations []string `json:"operations"`
	}
	kafkaTopic struct {
		meta.TypeMeta
		Metadata meta.ObjectMeta `json:"metadata"`
		Spec     struct {
			Partitions int            `json:"partitions"`
			Replicas   int            `json:"replicas"`
			Config     map[string]any `json:"config"`
		} `json:"spec"`
	}
)

func TestEveryFieldExists(t *testing.T) {
	for _, dir := range kustomizations {
		t.Run(dir, func(t *testing.T) {
			for _, o := range kustomize(t, dir) {
				strict(t, o)
			}
		})
	}
}

func strict(t *testing.T, o object) {
	t.Helper()
	kind := o.GetAPIVersion() + "/" + o.GetKind()
	if kind == "postgresql.cnpg.io/v1/Cluster" {
		if err := clusterSchema(t).Validate(o.Object); err != nil {
			t.Errorf("%s: %v", o.id(), err)
		}
		return
	}
	fresh, ok := kinds[kind]
	if !ok {
		t.Errorf("%s: no type is known for %s", o.id(), kind)
		return
	}
	if err := decode(o.text, fresh()); err != nil {
		t.Errorf("%s: %v\n%s", o.id(), err, o.text)
	}
}

// decode refuses what the type does not have, also where a name differs in its capital letters.
func decode(text []byte, into any) error {
	b, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(b, into)
	return errors.Join(append(unknown, err)...)
}

// TestStrictRefuses: a field that is misspelled is found, in the types and in the schema.
func TestStrictRefuses(t *testing.T) {
	o := named(t, kustomize(t, "overlays/cloudnativepg"), "Deployment/cdc-outbox")
	wrong := strings.Replace(string(o.text), "readOnlyRootFilesystem", "readOnlyRootFileSystem", 1)
	if err := decode([]byte(wrong), kinds["apps/v1/Deployment"]()); err == nil {
		t.Error("a misspelled field of a Deployment is accepted")
	}
	c := named(t, kustomize(t, "overlays/cloudnativepg"), "Cluster/shop")
	c.Object["spec"].(map[string]any)["postgresqll"] = map[string]any{}
	if err := clusterSchema(t).Validate(c.Object); err == nil {
		t.Error("a misspelled field of a Cluster is accepted")
	}
}

func named(t *testing.T, all []object, id string) object {
	t.Helper()
	for _, o := range all {
		if o.id() == id {
			return o
		}
	}
	t.Fatalf("there is no %s", id)
	return object{}
}

// clusterSchema is the schema of CloudNativePG's Cluster, from the definition in its own module.
func clusterSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", "github.com/cloudnative-pg/cloudnative-pg").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var module struct{ Dir string }
	if err := encoding.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	file := filepath.Join(module.Dir, "config/crd/bases/postgresql.cnpg.io_clusters.yaml")
	if err := yaml.Unmarshal(read(t, file), &crd); err != nil {
		t.Fatal(err)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	closed(schema)
	schema["properties"].(map[string]any)["metadata"] = map[string]any{}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("cluster.json", schema); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// closed allows in each object what it names and nothing more, as the API server does by removing the rest. It also
// removes two keywords that mean something different, or nothing, in JSON Schema.
func closed(schema map[string]any) {
	if _, either := schema["x-kubernetes-int-or-string"]; either {
		delete(schema, "type")
	}
	delete(schema, "format")
	if schema["type"] == "object" && schema["properties"] != nil && schema["additionalProperties"] == nil &&
		schema["x-kubernetes-preserve-unknown-fields"] == nil {
		schema["additionalProperties"] = false
	}
	for key, value := range schema {
		sub, ok := value.(map[string]any)
		switch {
		case !ok:
		case key == "properties":
			for _, p := range sub {
				closed(p.(map[string]any))
			}
		default:
			closed(sub)
		}
	}
}
