package kubernetes

import (
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	admission "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestRestricted: the pods are allowed in a namespace that enforces the restricted Pod Security Standard.
func TestRestricted(t *testing.T) {
	for _, dir := range kustomizations {
		for _, o := range kustomize(t, dir) {
			if template := podOf(t, o); template != nil {
				restricted(t, dir+" "+o.id(), template)
			}
		}
	}
}

func restricted(t *testing.T, name string, template *core.PodTemplateSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	level := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			t.Errorf("%s: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	spec := template.Spec
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("%s: a token of the API is mounted, which no process needs", name)
	}
	for _, c := range spec.Containers {
		if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("%s: the root file system is writable", name)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() ||
			c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: requests and limits are incomplete", name)
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.Name != "PGUSER" && e.Name != "PGPASSWORD" {
				t.Errorf("%s: the secret in %s is not a file", name, e.Name)
			}
		}
	}
}

// podOf is the pod of a Deployment or a Job, nil for other objects.
func podOf(t *testing.T, o object) *core.PodTemplateSpec {
	t.Helper()
	var d apps.Deployment
	var j batch.Job
	switch o.GetKind() {
	case "Deployment":
		if err := decode(o.text, &d); err != nil {
			t.Fatal(err)
		}
		return &d.Spec.Template
	case "Job":
		if err := decode(o.text, &j); err != nil {
			t.Fatal(err)
		}
		return &j.Spec.Template
	}
	return nil
}

// TestRestrictedRefuses: a pod that drops its restrictions is found.
func TestRestrictedRefuses(t *testing.T) {
	template := podOf(t, named(t, kustomize(t, "base"), "Deployment/cdc-outbox"))
	root := false
	template.Spec.SecurityContext.RunAsNonRoot = &root
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	level := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
	allowed := true
	for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
		allowed = allowed && result.Allowed
	}
	if allowed {
		t.Error("a pod that may run as root is allowed")
	}
}
