// Package deploy checks the files beside it, and docker-compose.yml, as far as that goes without a container engine:
// that they agree with each other and with the code they run.
package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

const root = ".." // of the repository

type compose struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image string `yaml:"image"`
	Build struct {
		Context, Dockerfile string
		Args                map[string]string
	}
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Healthcheck *struct{ Test []string }
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	readYAML(t, filepath.Join(root, "docker-compose.yml"), &c)
	require.NotEmpty(t, c.Services)
	return c
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(b, into), path)
}

func TestComposePublishesOnLoopbackOnly(t *testing.T) {
	taken := map[string]string{}
	for name, s := range readCompose(t).Services {
		for _, p := range s.Ports {
			require.True(t, strings.HasPrefix(p, "127.0.0.1:"), "%s publishes %s beyond this machine", name, p)
			host := p[:strings.LastIndex(p, ":")]
			require.Empty(t, taken[host], "%s and %s publish %s", name, taken[host], host)
			taken[host] = name
		}
	}
	require.NotEmpty(t, taken)
}

var portVariable = regexp.MustCompile(`^127\.0\.0\.1:\$\{([A-Z]+_PORT):-(\d+)}:(\d+)$`)

// TestComposePortsCanBeChosen: each published port is a variable whose default is the port inside, and the head of the
// file lists it.
func TestComposePortsCanBeChosen(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(text), "\nname:")
	for name, s := range readCompose(t).Services {
		for _, p := range s.Ports {
			m := portVariable.FindStringSubmatch(p)
			require.NotNil(t, m, "%s publishes %s", name, p)
			require.Equal(t, m[3], m[2], name)
			require.Contains(t, head, m[1])
		}
	}
	require.Contains(t, string(text), "HOST://localhost:${KAFKA_PORT:-9092}", "clients on the host follow the port")
}

// TestComposeBuildsAVersion: what the image is built with is what the Dockerfile takes.
func TestComposeBuildsAVersion(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	args := readCompose(t).Services["setup"].Build.Args
	require.Len(t, args, 2)
	for name, value := range args {
		require.Contains(t, string(dockerfile), "\nARG "+name+"=unknown\n")
		require.Equal(t, "${"+name+":-unknown}", value)
	}
}

func TestComposeNamesWhatIsThere(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				require.FileExists(t, anyFileIn(t, filepath.Join(root, source)), "%s mounts it", name)
			} else {
				require.Contains(t, c.Volumes, source, "%s mounts an undeclared volume", name)
			}
		}
		if s.Build.Dockerfile != "" {
			require.FileExists(t, filepath.Join(root, s.Build.Context, s.Build.Dockerfile))
		}
		for dep, how := range s.DependsOn {
			other, ok := c.Services[dep]
			require.True(t, ok, "%s depends on %s", name, dep)
			if how.Condition == "service_healthy" {
				require.NotNil(t, other.Healthcheck, "%s waits for the health of %s, which has no check", name, dep)
			}
		}
	}
}

// anyFileIn returns the path itself where it is a file, otherwise a file below it. Docker makes an empty directory of a
// mount that does not exist, so a directory without a file is as wrong.
func anyFileIn(t *testing.T, path string) string {
	t.Helper()
	found := ""
	err := filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = p
			return filepath.SkipAll
		}
		return err
	})
	require.NoError(t, err)
	return found
}

func TestComposeChecksHealth(t *testing.T) {
	// setup and topics end; the connector's image holds no program for a health check, so Prometheus checks it.
	without := []string{"setup", "topics", "cdc-outbox"}
	for name, s := range readCompose(t).Services {
		if slices.Contains(without, name) {
			require.Nil(t, s.Healthcheck, name)
			continue
		}
		require.NotNil(t, s.Healthcheck, name)
		require.NotEmpty(t, s.Healthcheck.Test, name)
	}
}

func TestComposeConfiguresTheConnector(t *testing.T) {
	c := readCompose(t)
	for _, name := range []string{"setup", "cdc-outbox"} {
		var environ []string
		for key, value := range c.Services[name].Environment {
			environ = append(environ, key+"="+value)
		}
		require.NotEmpty(t, environ, name)
		loaded, err := config.Load(config.Options{Environ: environ})
		require.NoError(t, err, name)
		for _, broker := range loaded.Kafka.Brokers {
			host, _, _ := strings.Cut(broker, ":")
			require.Contains(t, c.Services, host)
		}
	}
}

func TestPrometheusScrapesTheConnector(t *testing.T) {
	var p struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus/prometheus.yml", &p)
	listen := readCompose(t).Services["cdc-outbox"].Environment["CDC_OUTBOX_HTTP_LISTEN"]
	require.True(t, strings.HasPrefix(listen, "0.0.0.0:"), listen)
	var targets []string
	for _, s := range p.ScrapeConfigs {
		for _, st := range s.StaticConfigs {
			targets = append(targets, st.Targets...)
		}
	}
	require.Equal(t, []string{"cdc-outbox:" + strings.TrimPrefix(listen, "0.0.0.0:")}, targets)
}

var goVersion = regexp.MustCompile(`(?m)^(?:go |FROM --platform=\$BUILDPLATFORM golang:)(\d+\.\d+)`)

func TestImageIsBuiltWithTheGoOfTheModule(t *testing.T) {
	var versions []string
	for _, path := range []string{"../go.mod", "Dockerfile"} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		m := goVersion.FindSubmatch(b)
		require.NotNil(t, m, path)
		versions = append(versions, string(m[1]))
	}
	require.Equal(t, versions[0], versions[1])
}
