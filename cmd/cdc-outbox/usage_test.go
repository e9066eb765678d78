package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args   string
		code   int
		stdout string // contained
		stderr string // contained
	}{
		{"", 2, "", "no command is named"},
		{"--help", 0, "Available Commands", ""},
		{"help run", 0, "gracefully", ""},
		{"rnu", 2, "", `unknown command "rnu" (did you mean run?)`},
		{"snapshot --help", 2, "", `unknown command "snapshot"`},
		{"help snapshot", 2, "", `unknown command "snapshot"`},
		{"slot drpo --help", 2, "", "cdc-outbox slot --help lists the commands"},
		{"config valdate", 2, "", `unknown command "valdate" (did you mean validate?)`},
		{"help slot accept", 0, "cdc-outbox slot accept", ""},
		{"postgres://h/x", 2, "", "the first word is not a command"},
		{"run --postgres-memory=off", 2, "", "flag --postgres-memory was renamed to --postgres-checkpoint"},
		{"run --postgres-slto=a", 2, "", "unknown flag --postgres-slto (did you mean --postgres-slot?)"},
		{"run now", 2, "", "cdc-outbox run takes no arguments"},
		{"run -x", 2, "", "unknown flag -x"},
		{"config --log-level", 2, "", "flag --log-level needs a value"},
		{"config --json=perhaps", 2, "", "flag --json has a value it cannot take"},
		{"config --log-level=loud", 2, "", `log.level = "loud" (--log-level)`},
		{"config --router-topic=${nothing}", 2, "", "${aggregate_type}"},
		{"config --postgres-tables=a.b.c.d", 2, "", "postgres.tables"},
		{"config --router-dead-letter-topic=a/b", 2, "", "router.dead_letter_topic"},
		{"config --config=/nowhere.yaml", 2, "", "/nowhere.yaml"},
		{"config", 0, "slot: cdc_outbox", ""},
		{"config --origins --log-level debug", 0, "level: debug # --log-level", ""},
		{"config validate", 0, "has no mistake", ""},
		{"config validate /nowhere.yaml", 2, "", "/nowhere.yaml"},
		{"config schema", 0, "json-schema.org", ""},
		{"config --json", 0, `"key": "postgres.slot"`, ""},
		{"config --help", 0, "--kafka-topics-replication-factor number (default 3)", ""},
		{"version", 0, "cdc-outbox v9.9.9-test ", ""},
		{"--version", 0, "cdc-outbox v9.9.9-test ", ""},
		{"version --json", 0, `"version": "v9.9.9-test"`, ""},
		{"completion bash", 0, "cdc-outbox", ""},
		{"man", 2, "", "one directory is needed"},
		{"setup --table --router-columns-id=key --dry-run", 2, "", "--table creates the standard table"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			r := invoke(t, nil, strings.Fields(tc.args)...)
			require.Equal(t, tc.code, r.code, r.all())
			require.Contains(t, r.stdout, tc.stdout)
			require.Contains(t, r.stderr, tc.stderr)
			if tc.code == 0 {
				require.Empty(t, r.stderr)
			} else {
				require.Empty(t, r.stdout)
				require.Equal(t, 1, strings.Count(r.stderr, "cdc-outbox: "), "an error is printed once")
			}
		})
	}
}

// Neither a directory without archives nor a mistyped one counts as whole.
func TestVerifyingNoArchiveSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := invoke(t, nil, "prune", "--verify-archive", dir)
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "archive "+dir+": the directory holds no archive, that is, not a single file "+
		"*.jsonl.zst. Next: Name the directory that prune --archive DIR wrote to.")
	r = invoke(t, nil, "prune", "--verify-archive", dir+"/missing")
	require.Equal(t, 2, r.code, r.all())
	require.Contains(t, r.stderr, "--verify-archive names no directory")
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	root := (&app{}).root()
	names := []string{}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
		require.NotEmpty(t, c.Example, c.Name())
		require.True(t, strings.HasPrefix(c.Example, "  cdc-outbox") ||
			strings.Contains(c.Example, "cdc-outbox "+c.Name()), c.Name())
	}
	require.Equal(t, []string{
		"audit", "check", "config", "dead-letter", "events", "find", "forward", "man", "migrate",
		"monitor", "pause", "preview", "prune", "repair", "replay",
		"resume", "row", "run", "schema", "setup", "slot",
		"status", "teardown", "version",
	}, names)
}

const canary = "hunter2canary"

// Whatever is asked with whatever is wrong, the password is not in the answer.
func TestNoSecretInAnyOutput(t *testing.T) {
	t.Parallel()
	host, port := deafAddress(t)
	addr := net.JoinHostPort(host, port)
	dir := t.TempDir()
	secret := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(secret, []byte(canary), 0o600))
	sasl := []string{
		"CDC_OUTBOX_KAFKA_SASL_MECHANISM=PLAIN", "CDC_OUTBOX_KAFKA_SASL_USERNAME=u",
		"CDC_OUTBOX_KAFKA_SASL_PASSWORD=" + canary,
	}
	dsns := map[string]string{
		"url":           "postgres://u:" + canary + "@" + addr + "/d?connect_timeout=2",
		"keywords":      "host=" + host + " port=" + port + " user=u password=" + canary + " connect_timeout=2",
		"broken URL":    "postgres://127.0.0.1:1/" + canary + "@" + addr + "/d",
		"broken escape": "postgres://u:%zz" + canary + "@" + addr + "/d",
		"broken words":  "host=h password=x " + canary,
		"bare":          canary,
	}
	commands := map[string][]string{
		"config": {"config", "--origins"}, "config json": {"config", "--json"}, "check": {"check"},
		"check json": {"check", "--json"},
		"status":     {"status"}, "status json": {"status", "--json"}, "setup": {"setup"},
		"dry-run":  {"setup", "--dry-run", "--table"},
		"teardown": {"teardown", "--yes"}, "misspelled": {"config", "--log-level=x", "--kafka-brokers=nowhere"},
	}
	for kind, dsn := range dsns {
		for name, args := range commands {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				args := append(args, "--kafka-brokers="+addr, "--http-listen="+addr)
				r := invoke(t, append(sasl, "CDC_OUTBOX_POSTGRES_DSN="+dsn), args...)
				require.NotContains(t, r.all(), canary)
				require.NotEmpty(t, r.all())
			})
		}
	}
	for _, args := range [][]string{
		{"config", "--postgres-dns=" + canary},
		{"config", canary},
		{canary},
		{"config", "-" + canary},
		{"config", "--postgres-dsn", "host=h password=" + canary + " x"},
		{"config", "--postgres-dsn", "postgres://u:p@" + canary + "@h/d"},
		{"config", "--=" + canary},
		{"config", "--json=" + canary},
	} {
		r := invoke(t, nil, args...)
		require.Equal(t, 2, r.code, args)
		require.NotContains(t, r.all(), canary, args)
	}
	r := invoke(t, []string{"CDC_OUTBOX_KAFKA_SASL_PASWORD=" + canary}, "config")
	require.Equal(t, 2, r.code)
	require.NotContains(t, r.all(), canary)
	r = invoke(t, append(sasl[:2:2], "CDC_OUTBOX_KAFKA_SASL_PASSWORD_FILE="+secret), "config")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "password: '@"+secret+"'")
	require.NotContains(t, r.all(), canary)
}

func TestConfigFromEveryLayer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	require.NoError(t, os.WriteFile(path, []byte("postgres: {slot: a, publication: a, setup: never}\n"), 0o600))
	r := invoke(t, []string{
		"CDC_OUTBOX_CONFIG=" + path, "CDC_OUTBOX_POSTGRES_SLOT=b", "CDC_OUTBOX_POSTGRES_PUBLICATION=b",
	},
		"config", "--postgres-slot", "c", "--json")
	require.Equal(t, 0, r.code, r.all())
	var values []struct {
		Key    string
		Value  any
		Origin string
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &values))
	got := map[string]any{}
	for _, v := range values {
		got[v.Key] = v.Value
	}
	require.Equal(t, []any{"c", "b", "never"}, []any{
		got["postgres.slot"], got["postgres.publication"], got["postgres.setup"],
	})
}
