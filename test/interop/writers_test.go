//go:build interop

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

var (
	writersPython = []string{
		"django-outbox-pattern==3.2.1", "faststream-outbox==0.19.0", "asyncpg", "psycopg[binary]==3.2.9",
	}
	writersNode = []string{"pg-transactional-outbox@0.5.7", "pg@8"}
)

var writerConfig = regexp.MustCompile("(?s)<!-- writer: (\\w+) -->\n```yaml\n(.*?)```")

// TestWriters: the libraries themselves make their tables and write an event, and the configuration of docs/writers.md
// publishes it. The tables of libraries that do not run here are tried with their published schemas, by the test of the
// same name in cmd/cdc-outbox.
func TestWriters(t *testing.T) {
	c := cluster(t)
	python := filepath.Join(fetched(t, "python-writers", func(dir string) {
		run(t.Context(), t, nil, nil, "python3", "-m", "venv", dir)
		run(t.Context(), t, nil, nil, filepath.Join(dir, "bin", "pip"), append([]string{"install", "--quiet"},
			writersPython...)...)
	}), "bin", "python")
	node := fetched(t, "node-writers", func(dir string) {
		run(t.Context(), t, nil, nil, "npm", append([]string{
			"install", "--silent", "--no-audit", "--prefix", dir,
		}, writersNode...)...)
	})
	watermill := filepath.Join(t.TempDir(), "watermill")
	run(t.Context(), t, []string{"GOWORK=off"}, nil, "go", "build", "-C", "testdata/watermill", "-o", watermill, ".")
	jvm := javaWriter(t, "java.xml", "writers/Gruelbox.java", "writers/Modulith.java")
	eventuate := javaWriter(t, "eventuate.xml", "writers/Eventuate.java")
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "writers.md"))
	require.NoError(t, err)
	blocks := map[string]string{}
	for _, m := range writerConfig.FindAllStringSubmatch(string(page), -1) {
		blocks[m[1]] = m[2]
	}
	for name, w := range map[string]struct {
		command           []string
		topic, key, value string
	}{
		"npm":        {[]string{"node", "writers/npm.js"}, "movie.events", "m-9", `{"title": "x"}`},
		"django":     {[]string{python, "writers/django_writer.py"}, "orders.v1", "7", `{"id": 7, "name": "x"}`},
		"faststream": {[]string{python, "writers/faststream_writer.py"}, "orders", "o-8", `{"order": 8}`},
		"gruelbox": {
			append(slices.Clip(jvm), "Gruelbox"), "gruelbox.calls", "", `{"c": "Gruelbox$Payments", "m": "charge",
				"p": ["String", "int"], "a": [{"t": "String", "v": "o-5"}, {"t": "Integer", "v": 1250}]}`,
		},
		"modulith": {
			append(slices.Clip(jvm), "Modulith"), "modulith.events", "o-6", `{"orderId": "o-6", "cents": 1250}`,
		},
		"eventuate": {append(eventuate, "Eventuate"), "tram.orders", "o-1", `{"orderId": "o-1"}`},
		"watermill": {
			[]string{watermill, "publisher"}, "watermill_orders", "o-2", `{"n": 1.50, "who": "Zoë"}`,
		},
		"forwarder": {
			[]string{watermill, "forwarder"}, "shipments", "o-2", `{"destination_topic": "shipments",
				"uuid": "0198a5c4-7d0e-7000-8000-000000000002", "payload": "eyJuIjogMS41MCwgIndobyI6ICJab8OrIn0=",
				"metadata": {"partition_key": "o-2", "tenant": "acme"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Postgres(t)
			write := func(step string) {
				run(t.Context(), t, []string{"NODE_PATH=" + filepath.Join(node, "node_modules")}, nil, w.command[0],
					append(slices.Clip(w.command[1:]), db.DSN, step)...)
			}
			write("create")
			require.Contains(t, blocks, name)
			config := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
			require.NoError(t, os.WriteFile(config, []byte(blocks[name]), 0o600))
			env := map[string]string{
				"CDC_OUTBOX_CONFIG": config, "CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
				"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication,
				"CDC_OUTBOX_KAFKA_BROKERS":        strings.Join(c.Addrs(), ","),
			}
			binary, err := process.Build()
			require.NoError(t, err)
			setup := exec.CommandContext(t.Context(), binary, "setup")
			for name, value := range env {
				setup.Env = append(setup.Env, name+"="+value)
			}
			out, err := setup.CombinedOutput()
			require.NoError(t, err, string(out))
			require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: w.topic, Partitions: 1}))
			p := begin(t, env)
			write("write")
			require.NoError(t, c.Await(t.Context(), 1, w.topic))
			records, err := c.Read(t.Context(), w.topic)
			require.NoError(t, err)
			if w.key != "" { // otherwise it is a new UUID
				require.Equal(t, w.key, string(records[0].Key))
			}
			require.JSONEq(t, w.value, string(records[0].Value))
			code, err := p.Stop(10 * time.Second)
			require.NoError(t, err)
			require.Zero(t, code)
		})
	}
}

// javaWriter is the command of writers in Java, without the name of the class. The libraries' annotation processors do
// not run: they document a project.
func javaWriter(t *testing.T, pom string, programs ...string) []string {
	t.Helper()
	jars := fetched(t, "java-writers-"+pom, func(dir string) {
		run(t.Context(), t, nil, nil, "mvn", "-q", "-B", "-f", "writers/"+pom, "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+dir)
	})
	classes := t.TempDir()
	run(t.Context(), t, nil, nil, "javac", append([]string{
		"-proc:none", "-parameters", "-d", classes, "-cp", filepath.Join(jars, "*"),
	}, programs...)...)
	return []string{"java", "-cp", classes + ":" + filepath.Join(jars, "*")}
}
