package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// group is one connector: cases whose JSON differs in nothing that the connector itself reads.
type group struct {
	Config map[string]string `json:"config"`
	Cases  []groupCase       `json:"cases"`
}

type groupCase struct {
	Name   string            `json:"name"`
	Table  string            `json:"table"`
	Config map[string]string `json:"config"`
}

// ownOptions are the parts of a connector's JSON that belong to a case or to where the connector runs.
func ownOption(key string) bool {
	for _, prefix := range []string{
		"transforms", "predicates", "key.converter", "value.converter", "header.converter", "database.",
	} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"table.include.list", "slot.name", "publication.name", "publication.autocreate.mode",
	}, key)
}

func groups(cases []*testCase, db *testkit.Database) ([]*group, error) {
	server, err := pgx.ParseConfig(db.DSN)
	if err != nil {
		return nil, err
	}
	byConfig := map[string]*group{}
	var list []*group
	for _, c := range cases {
		config := map[string]string{}
		for k, v := range c.config {
			if !ownOption(k) {
				config[k] = v
			}
		}
		text, err := json.Marshal(config) // keys come sorted
		if err != nil {
			return nil, err
		}
		g := byConfig[string(text)]
		if g == nil {
			g = &group{Config: config}
			byConfig[string(text)] = g
			list = append(list, g)
		}
		g.Cases = append(g.Cases, groupCase{Name: c.name, Table: c.table, Config: c.config})
	}
	for i, g := range list {
		tables := make([]string, len(g.Cases))
		for j, c := range g.Cases {
			tables[j] = c.Table
		}
		for k, v := range map[string]string{
			"database.hostname": server.Host, "database.port": strconv.Itoa(int(server.Port)),
			"database.user": server.User, "database.password": "unused", "database.dbname": server.Database,
			"table.include.list": strings.Join(tables, ","), "slot.name": debeziumSlot(i),
			"publication.name": debeziumSlot(i), "publication.autocreate.mode": "filtered",
			// Connectors of one prefix would fight for the names of their MBeans.
			"custom.metric.tags": "group=" + strconv.Itoa(i),
		} {
			g.Config[k] = v
		}
	}
	return list, nil
}

func debeziumSlot(i int) string { return fmt.Sprintf("debezium_%d", i) }

// capture is a running JVM with a connector per group.
type capture struct {
	groups int
	cmd    *exec.Cmd
	early  []line       // read before everything streamed
	log    bytes.Buffer // to be read once lines is closed
	lines  chan line    // closed at the end of the JVM's output
}

// line is one line of Capture.java's output.
type line struct {
	Case    string `json:"case"`
	Refused string `json:"refused"`
	Dropped string `json:"dropped"`
	Dies    string `json:"dies"`
	Failed  string `json:"failed"`

	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Timestamp *int64 `json:"timestamp"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
	Headers   []struct {
		Key   string `json:"key"`
		Value []byte `json:"value"`
	} `json:"headers"`
}

func (l *line) outcome() outcome {
	switch {
	case l.Refused != "":
		return outcome{Fate: refusedAtStart + oneLine(l.Refused)}
	case l.Dies != "":
		return outcome{Fate: "task dies: " + oneLine(l.Dies)}
	case l.Dropped != "":
		return outcome{Fate: "dropped: " + l.Dropped}
	}
	o := outcome{Topic: l.Topic, Partition: l.Partition, Timestamp: l.Timestamp, Key: l.Key, Value: l.Value}
	for _, h := range l.Headers {
		o.Headers = append(o.Headers, header{h.Key, h.Value})
	}
	o.settle()
	return o
}

// oneLine makes messages stable and fit for the file.
func oneLine(s string) string {
	q := strconv.Quote(s)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(q[1 : len(q)-1])
}

// startCapture starts Debezium on the tables, which must be empty, and returns once every connector is streaming.
func startCapture(t *testing.T, db *testkit.Database, cases []*testCase) *capture {
	t.Helper()
	list, err := groups(cases, db)
	require.NoError(t, err)
	manifest, err := json.Marshal(map[string]any{"groups": list})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "manifest.json")
	require.NoError(t, os.WriteFile(path, manifest, 0o600))
	jars := debeziumJars(t)

	c := &capture{groups: len(list), lines: make(chan line, 10_000)}
	c.cmd = exec.CommandContext(t.Context(), "java", "-Duser.timezone=UTC",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dfile.encoding=UTF-8", "-cp", filepath.Join(jars, "*"),
		"debezium/Capture.java", path)
	c.cmd.Stderr = &c.log
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go c.read(stdout)
	c.awaitStreaming(t, db)
	return c
}

func (c *capture) read(r io.Reader) {
	defer close(c.lines)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			l = line{Failed: err.Error() + ": " + scanner.Text()}
		}
		c.lines <- l
	}
}

func (c *capture) awaitStreaming(t *testing.T, db *testkit.Database) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.DSN)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for {
		var streaming int
		err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name LIKE "+
			"'debezium\\_%' AND database = current_database()").Scan(&streaming)
		if err == nil && streaming == c.groups {
			return
		}
		if err != nil {
			require.NoError(t, err, "%d of %d connectors stream; Debezium says:\n%s", streaming, c.groups, c.output())
		}
		select {
		case l, open := <-c.lines:
			// A case whose configuration is refused says so before anything streams.
			if !open || l.Failed != "" {
				require.FailNow(t, "a connector failed: "+l.Failed, "Debezium says:\n%s", c.output())
			}
			c.early = append(c.early, l)
		case <-time.After(100 * time.Millisecond): //waits:ok the progress of another process has no signal
		}
	}
}

// output ends the JVM and returns what it said on standard error.
func (c *capture) output() string {
	_ = c.cmd.Process.Kill()
	for range c.lines {
	}
	_ = c.cmd.Wait()
	return c.log.String()
}

// outcomes waits until every connector has met the end of the rows, and returns what became of them by case.
func (c *capture) outcomes(t *testing.T) map[string][]outcome {
	t.Helper()
	found := map[string][]outcome{}
	add := func(l line) {
		if l.Dropped != "tombstone" { // the second record that the connector writes for a DELETE
			found[l.Case] = append(found[l.Case], l.outcome())
		}
	}
	for _, l := range c.early {
		add(l)
	}
	for l := range c.lines {
		if l.Failed != "" {
			require.FailNow(t, "a connector failed: "+l.Failed, "Debezium says:\n%s", c.output())
		}
		add(l)
	}
	require.NoError(t, c.cmd.Wait(), "Debezium says:\n%s", c.log.String())
	return found
}

// debeziumJars fetches the jars once into the cache.
func debeziumJars(t *testing.T) string {
	t.Helper()
	pom, err := os.ReadFile("debezium/pom.xml")
	require.NoError(t, err)
	cache, err := scratch.CacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "conformance-debezium")
	lock, err := scratch.Lock(dir + ".lock")
	require.NoError(t, err)
	defer lock.Close()
	jars, done := filepath.Join(dir, "jars"), filepath.Join(dir, "complete")
	if have, err := os.ReadFile(done); err == nil && bytes.Equal(have, pom) {
		return jars
	}
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	out, err := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "-f", "debezium/pom.xml",
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+jars).CombinedOutput()
	require.NoError(t, err, "fetch Debezium with Maven (offline? point Maven's settings.xml to a reachable mirror): %s",
		out)
	require.NoError(t, os.WriteFile(done, pom, 0o644))
	return jars
}
