package deploy

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// workload is what is read of a Deployment, a Job or a patch of one. testdata/kubernetes checks the rest, strictly.
type workload struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Env []struct{ Name, Value string }
				}
			}
		}
	}
}

// TestKubernetesConfigures: the files and variables of each overlay are a configuration without a mistake, with the
// secrets where the manifests mount them.
func TestKubernetesConfigures(t *testing.T) {
	const base, components, plain = "kubernetes/base/", "kubernetes/components/", "kubernetes/overlays/plain/"
	cases := map[string]struct {
		file  string
		parts []string
		check func(*testing.T, *config.Loaded)
	}{
		"base": {base + "cdc-outbox.yaml", []string{base + "relay.yaml"}, nil},
		"plain": {
			plain + "cdc-outbox.yaml",
			[]string{base + "relay.yaml", plain + "relay.yaml"},
			func(t *testing.T, c *config.Loaded) { require.Equal(t, "SCRAM-SHA-512", c.Kafka.SASL.Mechanism) },
		},
		"strimzi": {
			base + "cdc-outbox.yaml",
			[]string{base + "relay.yaml", components + "strimzi/relay.yaml"},
			func(t *testing.T, c *config.Loaded) { require.NotEmpty(t, c.Kafka.TLS.Cert) },
		},
		"cloudnativepg": {
			base + "cdc-outbox.yaml",
			[]string{base + "relay.yaml", components + "cloudnativepg/relay.yaml"},
			func(t *testing.T, c *config.Loaded) { require.True(t, c.Postgres.Failover) },
		},
		"monitor": {base + "cdc-outbox.yaml", []string{base + "monitor.yaml"}, nil},
		"setup":   {"", []string{"kubernetes/setup/job.yaml"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			loaded := configured(t, c.file, c.parts)
			if c.file != "" {
				require.True(t, loaded.HTTP.StandbyReady, "two replicas need it")
				require.Equal(t, config.OnFaultStay, loaded.OnFault)
				require.True(t, strings.HasSuffix(loaded.HTTP.Listen, ":9464"))
			}
			if c.check != nil {
				c.check(t, loaded)
			}
		})
	}
}

var podSelector = regexp.MustCompile(`(?m)^\s*kubectl get pods .*-l (\S+)=(\S+)$`)

// TestDocumentedSelectorsFindThePods: a selector that no pod has makes kubectl say that there are no pods.
//
// Bug (monitor): The runbook selected pods by a label that none has. Cost: "No resources found" beside a relay that
// runs.
func TestDocumentedSelectorsFindThePods(t *testing.T) {
	var relay struct {
		Spec struct {
			Template struct {
				Metadata struct{ Labels map[string]string }
			}
		}
	}
	readYAML(t, "kubernetes/base/relay.yaml", &relay)
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range podSelector.FindAllStringSubmatch(string(text), -1) {
			require.Equal(t, m[2], relay.Spec.Template.Metadata.Labels[m[1]], "%s selects %s", page, m[1])
			found++
		}
	}
	require.NotZero(t, found)
}

// TestReadmeLeadsToTheOverlay: the commands before `apply` leave their objects where the overlay looks for them, and
// each image that they start is one that was named.
//
// Bug (monitor): The steps for Kubernetes used another namespace than the overlay, and named no image for the setup
// Job. Cost: a first installation that cannot start.
func TestReadmeLeadsToTheOverlay(t *testing.T) {
	text, err := os.ReadFile("kubernetes/README.md")
	require.NoError(t, err)
	var overlay struct{ Namespace string }
	readYAML(t, "kubernetes/overlays/plain/kustomization.yaml", &overlay)
	before, _, found := strings.Cut(string(text), "kubectl create secret ")
	require.True(t, found)
	require.Contains(t, before, "\n   kubectl create namespace "+overlay.Namespace+"\n")
	require.Contains(t, before, "\n   kubectl config set-context --current --namespace="+overlay.Namespace+"\n")
	applied := applies.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, applied)
	for _, m := range applied {
		require.Contains(t, before, "(cd "+m[1]+" && kustomize edit set image ")
	}
}

var applies = regexp.MustCompile(`(?m)^ *kubectl apply -k (\S+)$`)

// configured loads what the container would, with the directories that are mounted there in one of the test's own.
func configured(t *testing.T, file string, parts []string) *config.Loaded {
	t.Helper()
	dir := mounted(t)
	inDir := strings.NewReplacer("/run/secrets/", dir+"/").Replace
	environ := map[string]string{}
	for _, part := range parts {
		var w workload
		readYAML(t, part, &w)
		require.Len(t, w.Spec.Template.Spec.Containers, 1, part)
		for _, e := range w.Spec.Template.Spec.Containers[0].Env {
			if strings.HasPrefix(e.Name, config.EnvPrefix) {
				environ[e.Name] = inDir(e.Value)
			}
		}
	}
	if file != "" {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "/etc/cdc-outbox/"+filepath.Base(file), environ["CDC_OUTBOX_CONFIG"])
		environ["CDC_OUTBOX_CONFIG"] = filepath.Join(dir, "cdc-outbox.yaml")
		require.NoError(t, os.WriteFile(environ["CDC_OUTBOX_CONFIG"], []byte(inDir(string(text))), 0o600))
	}
	var list []string
	for name, value := range environ {
		list = append(list, name+"="+value)
	}
	loaded, err := config.Load(config.Options{Environ: list})
	require.NoError(t, err)
	return loaded
}

// mounted is a directory with the secrets that the manifests mount.
func mounted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	der, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	const dsn = "postgres://cdc_outbox:secret@postgres/shop"
	for path, content := range map[string][]byte{
		"postgres/dsn": []byte(dsn), "owner/dsn": []byte(dsn), "postgres-ca/ca.crt": cert, "kafka-ca/ca.crt": cert,
		"kafka-user/user.crt": cert, "kafka-user/user.key": key,
		"kafka/username": []byte("cdc-outbox"), "kafka/password": []byte("secret"),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), content, 0o600))
	}
	return dir
}
