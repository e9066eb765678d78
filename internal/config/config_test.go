package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// load runs Load over a file's text (none when empty), variables and flags.
func load(t *testing.T, file string, environ []string, args ...string) (*Loaded, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	if file != "" {
		path := filepath.Join(t.TempDir(), "cdc.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	require.NoError(t, fs.Parse(args))
	return Load(Options{Environ: environ, Flags: fs})
}

func problems(t *testing.T, err error) Problems {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, fault.Config, fault.KindOf(err))
	var p Problems
	require.True(t, errors.As(err, &p))
	return p
}

func TestDefaults(t *testing.T) {
	c, err := load(t, "", nil)
	require.NoError(t, err)
	require.Equal(t, "cdc_outbox", c.Postgres.Slot)
	require.Equal(t, []string{"public.outbox"}, c.Postgres.Tables)
	require.Empty(t, c.Postgres.Messages)
	require.Equal(t, "auto", c.Postgres.Setup)
	require.Equal(t, "${aggregate_type}.events", c.Router.Topic)
	require.Equal(t, "event_type", c.Router.Columns.Type)
	require.Equal(t, "created_at", c.Router.Columns.Timestamp)
	require.Equal(t, "cdc-outbox.dead-letter", c.Router.DeadLetterTopic)
	require.Equal(t, []string{"127.0.0.1:9092"}, c.Kafka.Brokers)
	require.Equal(t, Topics{Partitions: 12, ReplicationFactor: 3}, c.Kafka.Topics)
	require.Equal(t, "at_least_once", c.Delivery)
	require.Equal(t, Window{Records: 100000, Bytes: 32 << 20, Row: 64 << 20}, c.Window)
	require.Equal(t, Monitor{
		Interval: 5 * time.Second, WarnRetained: 1 << 30, CriticalRetained: 10 << 30, RepeatInterval: time.Hour,
		WebhookFormat: "json", RunbookURL: RunbookPublished,
	}, c.Monitor)
	require.Equal(t, HTTP{Listen: "127.0.0.1:9464", Stall: 15 * time.Second}, c.HTTP)
	require.Equal(t, Log{Level: "info", Format: "auto"}, c.Log)
	require.Empty(t, c.Warnings)
}

func TestLayers(t *testing.T) {
	file := `
postgres:
  slot: from_file
  publication: from_file
  tables: [a.b, c.d]
  failover: false
kafka: {brokers: ["f:1"], topics: {partitions: 6}}
log:
  level: debug
monitor:   # nothing below
`
	environ := []string{
		"CDC_OUTBOX_POSTGRES_PUBLICATION=from_env", "CDC_OUTBOX_KAFKA_BROKERS=a:1, b:2", "CDC_OUTBOX_WINDOW_BYTES=1MB",
		"CDC_OUTBOX_LOG_LEVEL=warn", "CDC_OUTBOX_HTTP_STALL=", "UNRELATED=1",
	}
	c, err := load(t, file, environ, "--log-level", "error", "--kafka-topics-replication-factor=1",
		"--postgres-failover", "--http-listen", "off")
	require.NoError(t, err)
	require.Equal(t, "from_file", c.Postgres.Slot)
	require.Equal(t, "from_env", c.Postgres.Publication)
	require.Equal(t, []string{"a.b", "c.d"}, c.Postgres.Tables)
	require.True(t, c.Postgres.Failover)
	require.Equal(t, []string{"a:1", "b:2"}, c.Kafka.Brokers)
	require.Equal(t, Topics{Partitions: 6, ReplicationFactor: 1}, c.Kafka.Topics)
	require.Equal(t, Size(1_000_000), c.Window.Bytes)
	require.Equal(t, "error", c.Log.Level)
	require.Equal(t, 15*time.Second, c.HTTP.Stall, "an empty variable is not set")

	require.Equal(t, "flag", c.Origins["log.level"].Layer)
	require.Equal(t, "--log-level", c.Origins["log.level"].String())
	require.Equal(t, "CDC_OUTBOX_WINDOW_BYTES", c.Origins["window.bytes"].String())
	require.Regexp(t, `cdc\.yaml:3$`, c.Origins["postgres.slot"].String())
	require.Equal(t, "default", c.Origins["http.stall"].String())
}

// needsOthers reports whether a key is refused alone: TestTLS, TestSASL, TestPresets, TestSource, TestSink,
// TestRegistry, TestHotStandby and TestWaitForStandbys have them.
func needsOthers(key string) bool {
	for _, section := range []string{
		"kafka.tls.", "kafka.sasl.", "polling.", "router.debezium.", "nats.", "rabbitmq.", "router.registry.tls.",
	} {
		if strings.HasPrefix(key, section) {
			return true
		}
	}
	return slices.Contains([]string{
		"router.registry.username", "router.registry.password", "router.registry.encode",
		"router.preset", "postgres.hot_standby", "postgres.primary_dsn", "postgres.wait_for_standbys_count",
	}, key)
}

// Every key of the contract can be set in each of the three ways, and is then what was set.
func TestEveryKeyEveryLayer(t *testing.T) {
	value := func(f Field) string {
		switch {
		case f.Key == "http.listen", f.Key == "kafka.brokers":
			return "h:1"
		case f.Key == "monitor.warn_retained":
			return "2GiB"
		case f.Key == "monitor.runbook_url", f.Key == "router.registry.url":
			return "https://h/x"
		case f.Key == "monitor.webhook":
			return "https://h/s3"
		case f.Key == "traces.headers":
			return "a=s3"
		case f.Key == "kafka.sasl.mechanism":
			return "PLAIN"
		}
		if len(f.OneOf) > 0 {
			for _, w := range f.OneOf {
				if w != f.Default {
					return w
				}
			}
			return f.Default
		}
		return map[string]string{
			"secret": "s3", "yes/no": "true", "number": "7", "duration": "7s", "size": "20GiB", "share": "7%",
			"list": "x.y", "text": "abc", typeMapping: `{"retention.ms": "1"}`,
			typeRules: `[{"pattern": "orders.*", "partitions": 3}]`,
		}[f.Type]
	}
	for _, f := range Fields() {
		if needsOthers(f.Key) {
			continue
		}
		want := value(f)
		dot := strings.LastIndexByte(f.Key, '.')
		name := f.Key[dot+1:]
		yaml := name + ": " + want
		if dot > 0 {
			section := f.Key[:dot]
			yaml = ""
			for depth, s := range strings.Split(section, ".") {
				yaml += strings.Repeat(" ", depth) + s + ":\n"
			}
			yaml += strings.Repeat(" ", strings.Count(section, ".")+1) + name + ": " + want
		}
		for layer, from := range map[string]func() (*Loaded, error){
			"file":        func() (*Loaded, error) { return load(t, yaml, nil) },
			"environment": func() (*Loaded, error) { return load(t, "", []string{f.Env + "=" + want}) },
			"flag":        func() (*Loaded, error) { return load(t, "", nil, "--"+f.Flag+"="+want) },
		} {
			c, err := from()
			require.NoError(t, err, "%s in %s", f.Key, layer)
			require.Equal(t, layer, c.Origins[f.Key].Layer, f.Key)
		}
	}
}

func TestABrokersAddressNamesItsMistake(t *testing.T) {
	for brokers, want := range map[string]string{
		"PLAINTEXT://a:9092,b:9092": `"PLAINTEXT://a:9092" is not host:port; leave out the scheme`,
		"kafka://a":                 `"kafka://a" is not host:port; leave out the scheme`,
		"a:9092;b:9092":             `"a:9092;b:9092" is not host:port; write commas between several`,
		"a:9092 b:9092":             `"a:9092 b:9092" is not host:port; write commas between several`,
		"a;b:9092":                  `"a;b:9092" is not host:port; write commas between several`,
	} {
		_, err := load(t, "", nil, "--kafka-brokers="+brokers)
		require.ErrorContains(t, err, want)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	file := `postgres:
  slto: x
  slot: Bad-Slot
window:
  records: many
  bytes: 0
bogus: 1
monitor: {warn_retained: 10GiB, critical_retained: 1GiB}
`
	environ := []string{"CDC_OUTBOX_LOG_LEVLE=debug", "CDC_OUTBOX_LOG_FORMAT=xml", "CDC_OUTBOX_DELIVERY=exactly_once"}
	_, err := load(t, file, environ, "--kafka-brokers=nowhere", "--http-stall=5")
	got := problems(t, err)
	text := err.Error()
	for _, want := range []string{
		`postgres.slto (`, `cdc.yaml:2): unknown key, did you mean postgres.slot?`,
		`postgres.slot = "Bad-Slot" (`,
		`cdc.yaml:3): is not a name for a replication slot; allowed: 1 to 63 of a-z, 0-9 and _`,
		`window.records = "many" (`, `window.bytes = "0" (`, `bogus (`,
		`monitor.critical_retained = "1GiB" (`, `is not above monitor.warn_retained (10GiB)`,
		`CDC_OUTBOX_LOG_LEVLE (environment): unknown variable, did you mean CDC_OUTBOX_LOG_LEVEL?`,
		`log.format = "xml" (CDC_OUTBOX_LOG_FORMAT): is not a known value; allowed: auto, json, console`,
		`kafka.brokers = "nowhere" (--kafka-brokers): "nowhere" is not host:port; allowed: host:port`,
		`http.stall = "5" (--http-stall): is not a duration; allowed: a number with a unit, such as 500ms, ` +
			`15s or 1m30s`,
	} {
		require.Contains(t, text, want)
	}
	require.Len(t, got, 10)
	require.Contains(t, text, "10 problems\n  - ")
}

func TestRunbookURL(t *testing.T) {
	for _, good := range []string{"published", "self", "http://h/runbook/", "https://wiki/x?page=runbook"} {
		c, err := load(t, "", nil, "--monitor-runbook-url="+good)
		require.NoError(t, err)
		require.Equal(t, good, c.Monitor.RunbookURL)
	}
	for _, bad := range []string{"x", "ftp://h/", "https://", "https://h/#a", "/runbook/"} {
		_, err := load(t, "", nil, "--monitor-runbook-url="+bad)
		require.ErrorContains(t, err, "allowed: published, self, or an http:// or https:// URL without #", bad)
	}
}

func TestDefaultsMayBeSpelledOut(t *testing.T) {
	_, err := load(t, "delivery: at_least_once\npostgres: {messages: [], snapshot: never}\nmonitor: {webhook: ''}\n"+
		"kafka: {topics: {create: no}}\n", nil)
	require.NoError(t, err)
}

func TestMessagesMayStandInForTables(t *testing.T) {
	for _, file := range []string{
		"postgres: {tables: []}\n", "postgres: {tables: [off]}\n", "postgres: {tables: off}\n",
	} {
		_, err := load(t, file, nil)
		require.ErrorContains(t, err, "names no table, and postgres.messages names no prefix")
		_, err = load(t, file, []string{"CDC_OUTBOX_POSTGRES_MESSAGES=outbox"})
		require.NoError(t, err)
	}
	_, err := load(t, "", nil, "--postgres-messages=a,a")
	require.ErrorContains(t, err, "twice")
}

func TestBadFiles(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"not YAML": {"postgres: [", "is not YAML"},
		"bare @": {
			"postgres:\n  dsn: @/run/secrets/dsn\n", "YAML needs quotes around a value that starts with @",
		},
		"tabs":             {"postgres:\n\tslot: a\n", "indented with spaces, not with tabs"},
		"twice":            {"log: {level: info}\nlog: {level: warn}\n", "log (CONF:2): is set twice"},
		"twice in section": {"log:\n  level: info\n  level: warn\n", "log.level (CONF:3): is set twice"},
		"twice by name":    {"log.level: info\nlog:\n  level: warn\n", "log.level (CONF:3): is set twice"},
		"scalar section":   {"log: debug\n", "log (CONF:1): this is a section"},
		"map for value":    {"log: {level: {a: b}}\n", "log.level (CONF:1): takes a value, not a section"},
		"list for value":   {"log: {level: [a]}\n", "log.level (CONF:1): takes one value, not a list"},
		"nested list":      {"postgres: {tables: [[a]]}\n", "takes a list of plain values"},
		"two documents":    {"delivery: at_least_once\n---\nlog: {level: warn}\n", "more than one YAML document"},
		"a list":           {"- a\n", "this is a section"},
		"near a section":   {"router:\n  colums:\n    id: event_id\n", "did you mean router.columns?"},
		"short key":        {"slot: a\n", "did you mean postgres.slot?"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tc.file, nil)
			problems(t, err)
			require.Regexp(t, strings.ReplaceAll(regexpQuote(tc.want), "CONF", `\S+cdc\.yaml`), err.Error())
		})
	}
	_, err := load(t, "", []string{"CDC_OUTBOX_CONFIG=/nowhere/cdc.yaml"})
	require.ErrorContains(t, err, "--config (/nowhere/cdc.yaml): the file cannot be read: no such file or directory")
	_, err = load(t, "# nothing\n", nil)
	require.NoError(t, err)
}

func regexpQuote(s string) string {
	return strings.NewReplacer("(", `\(`, ")", `\)`, "?", `\?`, "[", `\[`, ".", `\.`).Replace(s)
}

func TestScalarsInTheFileKeepTheirText(t *testing.T) {
	c, err := load(t, "kafka: {sasl: {mechanism: PLAIN, username: 007, password: 1e5}}\n", nil)
	require.NoError(t, err)
	user, _ := c.Kafka.SASL.Username.Read()
	pass, _ := c.Kafka.SASL.Password.Read()
	require.Equal(t, []string{"007", "1e5"}, []string{user, pass})
}

func TestKubernetesServiceVariablesAreNotOurs(t *testing.T) {
	_, err := load(t, "", []string{
		"CDC_OUTBOX_TEST_CACHE=/tmp",
		"CDC_OUTBOX_SERVICE_HOST=10.0.0.1", "CDC_OUTBOX_SERVICE_PORT=9464", "CDC_OUTBOX_SERVICE_PORT_HTTP=9464",
		"CDC_OUTBOX_PORT=tcp://10.0.0.1:9464", "CDC_OUTBOX_PORT_9464_TCP=tcp://10.0.0.1:9464",
		"CDC_OUTBOX_PORT_9464_TCP_ADDR=10.0.0.1", "CDC_OUTBOX_METRICS_SERVICE_HOST=10.0.0.2",
	})
	require.NoError(t, err)
	for _, f := range Fields() {
		require.False(t, kubernetesService.MatchString(f.Env) || strings.HasPrefix(f.Env, testPrefix), f.Env)
	}
}

func TestHotStandby(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want string // empty: it is fine
	}{
		"with a primary":     {"{hot_standby: true, primary_dsn: host=p}", ""},
		"without checkpoint": {"{hot_standby: true, checkpoint: off}", ""},
		"no checkpoint table": {
			"{hot_standby: true}", "postgres.primary_dsn: is not set, and a hot standby cannot store the checkpoint",
		},
		"not a standby":      {"{primary_dsn: host=p}", "is set while postgres.hot_standby is false"},
		"failover":           {"{hot_standby: true, checkpoint: off, failover: true}", "postgres.failover"},
		"snapshot":           {"{hot_standby: true, checkpoint: off, snapshot: initial}", "postgres.snapshot"},
		"no secret is shown": {"{primary_dsn: 'host=p password=s3cret'}", "postgres.primary_dsn"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "postgres: "+c.file, nil)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}

func TestOnGap(t *testing.T) {
	for file, want := range map[string]string{
		"on_gap: heal":   "",
		"on_gap: report": "",
		"{on_gap: heal, postgres: {checkpoint: off}}":                              "postgres.checkpoint is off",
		"{on_gap: heal, postgres: {hot_standby: true, primary_dsn: host=p}}":       "postgres.hot_standby",
		"{on_gap: heal, postgres: {messages: [a], tables: []}}":                    "needs postgres.tables",
		"{on_gap: heal, postgres: {slot: a" + strings.Repeat("b", 43) + "}}":       "at most 43 bytes",
		"{on_gap: heal, sink: nats, nats: {url: 'nats://a:4222', stream: events}}": "sink is nats",
		"{on_gap: heal, sink: rabbitmq}":                                           "sink is rabbitmq",
		"{on_gap: heal, source: polling}":                                          "belongs to source: wal",
		"on_gap: sometimes":                                                        "report, heal",
	} {
		_, err := load(t, file, nil)
		if want == "" {
			require.NoError(t, err, file)
			continue
		}
		require.ErrorContains(t, err, want, file)
	}
}

func TestSASL(t *testing.T) {
	_, err := load(t, "", nil, "--kafka-sasl-mechanism=PLAIN")
	require.Len(t, problems(t, err), 2)
	_, err = load(t, "", nil, "--kafka-sasl-username=a", "--kafka-sasl-password=b")
	require.ErrorContains(t, err, "name the mechanism")
	_, err = load(t, "", nil, "--kafka-sasl-mechanism=GSSAPI")
	require.ErrorContains(t, err, `allowed: "", PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`)
	c, err := load(t, "", nil, "--kafka-sasl-mechanism=PLAIN", "--kafka-sasl-username=a", "--kafka-sasl-password=b")
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "in the clear")
}

func TestTLS(t *testing.T) {
	_, err := load(t, "", nil, "--kafka-tls-ca=ca.pem", "--kafka-tls-insecure-skip-verify")
	require.Len(t, problems(t, err), 2)
	require.ErrorContains(t, err, "while kafka.tls.enabled is false")
	_, err = load(t, "", nil, "--kafka-tls-enabled", "--kafka-tls-ca=/nowhere/ca.pem", "--kafka-tls-cert=c.pem")
	require.ErrorContains(t, err, "belong together")
	require.ErrorContains(t, err, "/nowhere/ca.pem: no such file")
	junk := filepath.Join(t.TempDir(), "junk.pem")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o600))
	_, err = load(t, "", nil, "--kafka-tls-enabled", "--kafka-tls-ca="+junk)
	require.ErrorContains(t, err, "holds no certificate")
	c, err := load(t, "", nil, "--kafka-tls-enabled", "--kafka-tls-server-name=k", "--kafka-tls-insecure-skip-verify")
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	cfg, err := c.Kafka.TLS.Build()
	require.NoError(t, err)
	require.True(t, cfg.InsecureSkipVerify)
	require.Equal(t, "k", cfg.ServerName)
	off, err := TLS{}.Build()
	require.NoError(t, err)
	require.Nil(t, off)
}

func TestChecksOfOtherPackages(t *testing.T) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	require.NoError(t, fs.Parse([]string{"--postgres-tables=a.b,c", "--postgres-dsn=host=x"}))
	var dsn string
	_, err := Load(Options{Flags: fs, Checks: map[string]func(string) error{
		"postgres.tables": func(s string) error {
			if !strings.Contains(s, ".") {
				return errors.New(s + " has no schema")
			}
			return nil
		},
		"postgres.dsn": func(s string) error { dsn = s; return nil },
	}})
	require.ErrorContains(t, err, `postgres.tables = "a.b,c" (--postgres-tables): c has no schema`)
	require.Equal(t, "host=x", dsn)
}

// Settings of a program are laid over the file, which it may name, and over its environment.
func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("source: wal\nkafka: {brokers: [a:1]}\nrouter: {topic: t}\n"), 0o600))
	o := Options{File: file, Environ: []string{"CDC_OUTBOX_ROUTER_TOPIC=u"}, Settings: map[string]string{
		"source": "polling", "kafka.brokers": "b:2, c:3", "router.columns.type": "", "window.bytes": "1MiB",
	}}
	c, err := Load(o)
	require.NoError(t, err)
	require.Equal(t, SourcePolling, c.Source)
	require.Equal(t, []string{"b:2", "c:3"}, c.Kafka.Brokers)
	require.Equal(t, "u", c.Router.Topic)
	require.Empty(t, c.Router.Columns.Type)
	require.Equal(t, Size(1<<20), c.Window.Bytes)
	o.Settings = map[string]string{"kafka.broker": "b", "window.records": "many", "postgres.dsn": "secret@"}
	_, err = Load(o)
	require.ErrorContains(t, err, "kafka.broker (settings): unknown key, did you mean kafka.brokers?")
	require.ErrorContains(t, err, `window.records = "many" (settings): is not a number`)
	require.NotContains(t, err.Error(), "secret")
}

func TestListsInFlagsAdd(t *testing.T) {
	c, err := load(t, "", nil, "--kafka-brokers=a:1", "--kafka-brokers=b:2", `--postgres-tables=public."a,b", c.d`)
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, c.Kafka.Brokers)
	require.Equal(t, []string{`public."a,b"`, "c.d"}, c.Postgres.Tables)
}

// The effective configuration is a file that gives the same configuration.
func TestYAMLRoundTrip(t *testing.T) {
	c, err := load(t, "", nil, "--monitor-interval=90s", "--postgres-tables=a.b,c.d", "--log-level=debug",
		"--http-stall=15m")
	require.NoError(t, err)
	first, err := c.YAML(false)
	require.NoError(t, err)
	require.Contains(t, string(first), "stall: 15m\n")
	again, err := load(t, string(first), nil)
	require.NoError(t, err)
	require.Equal(t, c.Config, again.Config)
	withOrigins, err := c.YAML(true)
	require.NoError(t, err)
	require.Contains(t, string(withOrigins), "level: debug # --log-level\n")
}

// A variable or a flag settles the open decision about its key, as it beats the file in everything else.
func TestAVariableSettlesADecision(t *testing.T) {
	const file = "undecided:\n  - kafka.brokers: \"bootstrap.servers: name them.\"\nkafka: {}\n"
	_, err := load(t, file, nil)
	require.ErrorContains(t, err, "is an open decision: bootstrap.servers: name them. Make it, then delete the line, "+
		"or set CDC_OUTBOX_KAFKA_BROKERS")
	c, err := load(t, file, []string{"CDC_OUTBOX_KAFKA_BROKERS=k:9092"})
	require.NoError(t, err)
	require.Equal(t, []string{"k:9092"}, c.Kafka.Brokers)
	_, err = load(t, file, nil, "--kafka-brokers=k:9092")
	require.NoError(t, err)
	_, err = load(t, file+"  brokers: [k:9092]\n", nil)
	require.Error(t, err, "a value in the file may be in doubt itself")
	_, err = load(t, "undecided:\n  - \"x: decide.\"\n", []string{"CDC_OUTBOX_KAFKA_BROKERS=k:9092"})
	require.ErrorContains(t, err, "is an open decision: x: decide.")
}
