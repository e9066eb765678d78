//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// The versions of the clients. Java's are the oldest that is supported and the testkit's own.
const (
	javaOldest, javaNewest = "2.8", "4.1"
	confluentKafka         = "confluent-kafka==2.16.1"
)

var kafkaJS = []string{"kafkajs@2.2.4", "snappyjs@0.7.0", "lz4js@0.2.0", "fzstd@0.1.1"}

// client prints the records of a topic as lines of JSON.
type client struct {
	name string
	// command lacks the arguments brokers, topic and the number of records.
	command []string
	env     []string
}

// foreign are the clients, fetched where they are not in the cache.
func foreign(t *testing.T) []client {
	t.Helper()
	python, node := pythonWith(t), nodeWith(t)
	return []client{
		{name: "Java " + javaOldest, command: java(t, javaOldest, "Dump.java")},
		{name: "Java " + javaNewest, command: java(t, javaNewest, "Dump.java")},
		{name: "librdkafka", command: []string{python, filepath.Join("clients", "dump.py")}},
		{
			name: "kafkajs", command: []string{"node", filepath.Join("clients", "dump.js")},
			env: []string{"NODE_PATH=" + node},
		},
	}
}

// dump runs the client.
func (c client) dump(ctx context.Context, t *testing.T, brokers, topic string, records int) []record {
	t.Helper()
	args := append(append([]string{}, c.command[1:]...), brokers, topic, strconv.Itoa(records))
	return parse(t, run(ctx, t, c.env, nil, c.command[0], args...))
}

// java is the command that runs a program of one file.
func java(t *testing.T, version, program string) []string {
	t.Helper()
	jars, err := kafka.Jars(version)
	require.NoError(t, err)
	return []string{"java", "-cp", filepath.Join(jars, "*"), filepath.Join("clients", program)}
}

func pythonWith(t *testing.T) string {
	t.Helper()
	dir := fetched(t, "python", func(dir string) {
		run(t.Context(), t, nil, nil, "python3", "-m", "venv", dir)
		run(t.Context(), t, nil, nil, filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--only-binary=:all:",
			confluentKafka)
	})
	return filepath.Join(dir, "bin", "python")
}

func nodeWith(t *testing.T) string {
	t.Helper()
	dir := fetched(t, "node", func(dir string) {
		run(t.Context(), t, nil, nil, "npm", append([]string{"install", "--silent", "--no-audit", "--prefix", dir},
			kafkaJS...)...)
	})
	return filepath.Join(dir, "node_modules")
}

// fetched is a directory of the cache that fetch fills once. A file marks it as complete.
func fetched(t *testing.T, name string, fetch func(dir string)) string {
	t.Helper()
	cache, err := scratch.CacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "interop", name)
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	lock, err := scratch.Lock(dir + ".lock")
	require.NoError(t, err)
	defer lock.Close()
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return dir
	}
	require.NoError(t, os.RemoveAll(dir))
	fetch(dir)
	require.NoError(t, os.WriteFile(complete, nil, 0o644))
	return dir
}

func run(ctx context.Context, t *testing.T, env []string, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, fmt.Sprintf("%s %v: %s", name, args, said.String()))
	return out
}
