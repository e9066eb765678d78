//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// composed is docker-compose.yml, whose services run here without a container engine.
type composed struct {
	*testing.T
	services map[string]composedService
	hosts    *strings.Replacer // addresses in the containers' network -> here
	jars     string
}

type composedService struct {
	Image       string
	Command     []string
	Environment map[string]string
	Healthcheck struct{ Test []string }
}

// TestComposeServices runs what docker-compose.yml says of Postgres, Kafka, setup, topics and the connector with the
// same programs: the server with its flags, Kafka of the image's version with the properties that the image derives
// from the environment, each health check, each command. Then an event arrives.
func TestComposeServices(t *testing.T) {
	t.Parallel()
	c := &composed{T: t}
	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	var file struct{ Services map[string]composedService }
	require.NoError(t, yaml.Unmarshal(text, &file))
	c.services = file.Services
	db := c.postgres()
	broker := c.kafka()
	c.hosts = strings.NewReplacer("postgres://postgres:postgres@postgres:5432/app", db.DSN, "kafka:19092", broker)

	c.java("topics", c.services["topics"].Command)
	binary, err := process.Build()
	require.NoError(t, err)
	setup := exec.CommandContext(t.Context(), binary, c.services["setup"].Command...)
	for name, value := range c.environment("setup") {
		setup.Env = append(setup.Env, name+"="+value)
	}
	out, err := setup.CombinedOutput()
	require.NoError(t, err, "%s", out)

	env := c.environment("cdc-outbox")
	delete(env, "CDC_OUTBOX_HTTP_LISTEN") // a free port instead
	relay, err := process.Start(process.Options{Args: c.services["cdc-outbox"].Command, Env: env})
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	require.NoError(t, relay.Ready(t.Context()), relay.LogTail(20))
	db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('order', '42', 'order_paid', '{"total": 12.50}')`)
	client, err := kafkaclient.New([]string{broker})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.Await(t.Context(), 1, "order.events"))
}

// postgres starts a server with the flags of the command.
func (c *composed) postgres() *testkit.Database {
	s := c.services["postgres"]
	settings := map[string]string{}
	require.Equal(c, "postgres", s.Command[0])
	for i := 1; i < len(s.Command); i += 2 {
		require.Equal(c, "-c", s.Command[i])
		name, value, _ := strings.Cut(s.Command[i+1], "=")
		settings[name] = value
	}
	db := testkit.DedicatedPostgres(c, postgres.Options{Settings: settings})
	check := s.Healthcheck.Test
	require.Equal(c, []string{"CMD", "pg_isready"}, check[:2])
	isReady := filepath.Join(db.Server.BinDir(), check[1])
	if _, err := os.Stat(isReady); err != nil {
		c.Logf("no pg_isready beside the server's programs") // as in the fetched ones
		return db
	}
	at := regexp.MustCompile(`:(\d+)/`).FindStringSubmatch(db.DSN)
	require.NotNil(c, at)
	out, err := exec.CommandContext(c.Context(), isReady, append(check[2:], "-p", at[1])...).CombinedOutput()
	require.NoError(c, err, "%s", out)
	return db
}

// kafka starts a broker of the image's version. The image turns KAFKA_A_B into the property a.b.
func (c *composed) kafka() (address string) {
	s := c.services["kafka"]
	_, version, _ := strings.Cut(s.Image, ":")
	var err error
	c.jars, err = kafka.Jars(version)
	require.NoError(c, err)
	dir := c.TempDir()
	inside, controller, host := c.port(), c.port(), c.port()
	here := strings.NewReplacer("${KAFKA_PORT:-9092}", host, ":19092", ":"+inside, ":9093", ":"+controller,
		":9092", ":"+host, "kafka:", "localhost:", "@kafka", "@localhost",
		"/var/lib/kafka/data", filepath.Join(dir, "data"))
	var properties bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		property := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "KAFKA_")), "_", ".")
		fmt.Fprintf(&properties, "%s=%s\n", property, here.Replace(here.Replace(s.Environment[name])))
	}
	file := filepath.Join(dir, "server.properties")
	require.NoError(c, os.WriteFile(file, properties.Bytes(), 0o600))
	c.java("format", []string{"kafka.tools.StorageTool", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", file})
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(c, err)
	defer log.Close()
	cmd := exec.Command("java", "-Xmx256m", "-cp", filepath.Join(c.jars, "*"), "kafka.Kafka", file)
	cmd.Stdout, cmd.Stderr = log, log
	broker, err := child.Start(cmd, syscall.SIGKILL)
	require.NoError(c, err)
	c.Cleanup(broker.Kill)
	c.hosts = strings.NewReplacer("localhost:9092", "localhost:"+host)
	check := s.Healthcheck.Test
	require.Equal(c, "CMD", check[0])
	require.Eventually(c, func() bool { return c.tryJava(check[1:]) == nil }, 2*time.Minute, time.Second)
	return "localhost:" + inside
}

func (c *composed) port() string {
	p, err := port.Free()
	require.NoError(c, err)
	return strconv.Itoa(p)
}

func (c *composed) environment(service string) map[string]string {
	env := map[string]string{}
	for name, value := range c.services[service].Environment {
		env[name] = c.hosts.Replace(value)
	}
	return env
}

// java runs a main class, or a script of /opt/kafka/bin by its class.
func (c *composed) java(what string, args []string) { require.NoError(c, c.tryJava(args), what) }

func (c *composed) tryJava(args []string) error {
	args = slices.Clone(args)
	if args[0] == "/opt/kafka/bin/kafka-topics.sh" {
		args[0] = "org.apache.kafka.tools.TopicCommand"
	}
	if c.hosts != nil {
		for i := range args {
			args[i] = c.hosts.Replace(args[i])
		}
	}
	out, err := exec.CommandContext(c.Context(), "java",
		append([]string{"-cp", filepath.Join(c.jars, "*")}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}
