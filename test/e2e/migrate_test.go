//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

// move is the change from a real Debezium to this connector, on one table.
type move struct {
	*testing.T
	db                        *testkit.Database
	kafka                     *kafka.Cluster
	dir, jars                 string
	topics, shadows           []string
	prefix, config, connector string
	written                   atomic.Int64
	worker                    *child.Child // Debezium
	connect                   string       // the worker's REST interface
}

// TestMigrateFromDebezium does what docs/migrating-from-debezium.md describes: real Debezium relays an outbox; its
// configuration is translated; both run side by side and are compared; then this connector takes the slot over, and
// gives it back, under a steady writer. Nothing may be missing, and what arrives twice carries the same id.
func TestMigrateFromDebezium(t *testing.T) {
	t.Parallel()
	m := newMove(t)
	conn, err := pgx.Connect(t.Context(), m.db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) }) // after the writers on it, whose cleanup is younger

	defer m.debezium()()
	shadow := m.cdc("CDC_OUTBOX_POSTGRES_SLOT="+m.db.Slot+"_shadow",
		"CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_REPLACEMENT=verify."+m.prefix+"${routedByValue}")
	pause := m.write(conn)
	m.until("Debezium relays", func() bool { return m.count(m.topics) > 300 })
	pause()
	m.settle(m.topics)
	m.settle(m.shadows)
	code, out := m.command("migrate", "verify", "--config", m.config, "--left-prefix", m.prefix, "--right-prefix",
		"verify."+m.prefix)
	require.Equal(t, 0, code, out)
	t.Logf("side by side: %s", out)
	exit, err := shadow.Stop(patience)
	require.NoError(t, err)
	require.Zero(t, exit)

	pause = m.write(conn)
	before := m.count(m.topics)
	m.until("some more", func() bool { return m.count(m.topics) > before+50 })
	stopped := time.Now()
	m.shell(`curl -sS --fail -X PUT "$CONNECT/connectors/outbox/stop"`)
	m.until("Debezium has left the slot", func() (free bool) {
		require.NoError(t, connect(t, m.db.DSN).QueryRow(t.Context(),
			"SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1", m.db.Slot).Scan(&free))
		return free
	})
	left := m.walEnd()
	own := m.cdc()
	before = m.count(m.topics)
	m.until("ours relays", func() bool { return m.count(m.topics) > before })
	gap := time.Since(stopped)
	m.until("more from ours", func() bool { return m.count(m.topics) > before+200 })
	m.passRestart(left)
	pause()
	repeats := m.settle(m.topics)
	t.Logf("takeover: %d events written, %d records repeated, %v from the stop of Debezium to the first "+
		"record of ours", m.written.Load(), repeats, gap.Round(time.Millisecond))

	pause = m.write(conn)
	exit, err = own.Stop(patience)
	require.NoError(t, err)
	require.Zero(t, exit)
	for _, command := range m.wayBack() {
		m.shell(command)
	}
	before = m.count(m.topics)
	m.until("Debezium goes on", func() bool {
		require.True(m, m.worker.Running(), "Debezium ended")
		return m.count(m.topics) > before+100
	})
	pause()
	again := m.settle(m.topics)
	t.Logf("back to Debezium: %d events written, %d records repeated", m.written.Load(), again-repeats)
}

// wayBack are the commands for Connect in the page's section "Roll back".
func (m *move) wayBack() (commands []string) {
	page, err := os.ReadFile("../../docs/migrating-from-debezium.md")
	require.NoError(m, err)
	_, section, found := strings.Cut(string(page), "\n## Roll back\n")
	require.True(m, found)
	block := strings.Split(section, "```")[1]
	for _, line := range strings.Split(block, "\n") {
		if strings.HasPrefix(line, "curl ") {
			commands = append(commands, line)
		}
	}
	require.Len(m, commands, 3)
	return commands
}

// shell runs a command of the page.
func (m *move) shell(command string) {
	cmd := exec.CommandContext(m.Context(), "sh", "-c", command)
	cmd.Env = append(os.Environ(), "CONNECT="+m.connect)
	out, err := cmd.CombinedOutput()
	require.NoError(m, err, "%s: %s", command, out)
	m.Logf("%s: %s", command, out)
}

func newMove(t *testing.T) *move {
	for _, tool := range []string{"java", "mvn", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs Java, Maven and curl")
		}
	}
	c, _ := sharedKafka(t)
	db := testkit.Postgres(t)
	m := &move{T: t, db: db, kafka: c, dir: t.TempDir(), jars: debeziumJars(t), prefix: db.Slot + "."}
	for _, name := range []string{"order", "customer"} {
		m.topics, m.shadows = append(m.topics, m.prefix+name), append(m.shadows, "verify."+m.prefix+name)
	}
	for _, name := range append(m.topics[:2:2], m.shadows...) {
		require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: name, Partitions: 3}))
	}
	db.Exec(t,
		`CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL,
			aggregateid text NOT NULL, type text, payload jsonb)`)
	db.Exec(t, "CREATE PUBLICATION "+db.Publication+" FOR TABLE outbox")
	for _, slot := range []string{db.Slot, db.Slot + "_shadow"} {
		db.Exec(t, "SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
	}
	m.translate()
	return m
}

// translate writes Debezium's files and has them translated.
func (m *move) translate() {
	pg, err := pgx.ParseConfig(m.db.DSN)
	require.NoError(m, err)
	const text = "org.apache.kafka.connect.storage.StringConverter"
	m.file("worker.properties", "bootstrap.servers="+m.kafka.Addrs()[0],
		"offset.storage.file.filename="+filepath.Join(m.dir, "offsets"), "key.converter="+text, "value.converter="+text)
	m.connector = m.file("connector.properties", "name=outbox",
		"connector.class=io.debezium.connector.postgresql.PostgresConnector", "topic.prefix=shop",
		"database.hostname="+pg.Host, fmt.Sprintf("database.port=%d", pg.Port), "database.user="+pg.User,
		"database.password=unused", "database.dbname="+pg.Database,
		"plugin.name=pgoutput", "slot.name="+m.db.Slot, "publication.name="+m.db.Publication,
		"publication.autocreate.mode=disabled",
		"table.include.list=public.outbox", "snapshot.mode=no_data", "tombstones.on.delete=false",
		"transforms=outbox", "transforms.outbox.type=io.debezium.transforms.outbox.EventRouter",
		"transforms.outbox.table.fields.additional.placement=type:header:eventType",
		"transforms.outbox.route.topic.replacement="+m.prefix+"${routedByValue}")
	m.config = filepath.Join(m.dir, "cdc-outbox.yaml")
	code, out := m.command("migrate", "debezium", m.connector, "--worker", filepath.Join(m.dir, "worker.properties"),
		"--output", m.config)
	require.Equal(m, 0, code, out)
}

func (m *move) file(name string, lines ...string) string {
	path := filepath.Join(m.dir, name)
	require.NoError(m, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// command runs a command of the product.
func (m *move) command(args ...string) (int, string) {
	binary, err := process.Build()
	require.NoError(m, err)
	cmd := exec.CommandContext(m.Context(), binary, args...)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// cdc starts the connector with the translated configuration.
func (m *move) cdc(environ ...string) *process.Process {
	env := map[string]string{"PGPASSWORD": "unused"}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	p, err := process.Start(process.Options{Args: []string{"run", "--config", m.config}, Env: env})
	require.NoError(m, err)
	m.Cleanup(func() {
		if m.Failed() {
			m.Log(p.LogTail(30))
		}
		_ = p.Close()
	})
	return p
}

// debezium starts a standalone Connect worker; the function ends it gracefully.
func (m *move) debezium() (stop func()) {
	rest, err := port.Free()
	require.NoError(m, err)
	common, err := os.ReadFile(filepath.Join(m.dir, "worker.properties"))
	require.NoError(m, err)
	m.connect = fmt.Sprintf("http://127.0.0.1:%d", rest)
	worker := m.file("worker-now.properties", string(common), "listeners="+m.connect)
	cmd := exec.Command("java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-cp", filepath.Join(m.jars, "*"),
		"org.apache.kafka.connect.cli.ConnectStandalone", worker, m.connector)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	java, err := child.Start(cmd, syscall.SIGKILL)
	require.NoError(m, err)
	m.worker = java
	stop = func() {
		_ = java.Signal(syscall.SIGTERM)
		if !java.Wait(patience) {
			java.Kill()
			m.Error("Debezium did not stop")
		}
	}
	m.Cleanup(func() {
		stop()
		if text := out.String(); m.Failed() {
			m.Log(text[max(0, len(text)-6000):])
		}
	})
	return stop
}

// write commits transactions until the function is called, which returns when the last is committed.
func (m *move) write(conn *pgx.Conn) (pause func()) {
	ctx, cancel := context.WithCancel(m.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			tag, err := conn.Exec(context.Background(), `INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
				SELECT (ARRAY['order', 'customer'])[1 + n % 2], 'key-' || (n * 7 + $1::int) % 40, 'Paid',
				CASE WHEN n % 11 = 0 THEN NULL ELSE jsonb_build_object('n', n, 'name', 'Zoë', 'total', 1.50) END
				FROM generate_series(1, 1 + $1::int % 4) n`, i)
			if err != nil {
				m.Errorf("write: %v", err)
				return
			}
			m.written.Add(tag.RowsAffected())
			time.Sleep(10 * time.Millisecond) //waits:ok a writer's pace, nothing waits for it
		}
	}()
	pause = func() { cancel(); <-done }
	m.Cleanup(pause)
	return pause
}

func (m *move) walEnd() (lsn string) {
	require.NoError(m, connect(m.T, m.db.DSN).QueryRow(m.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&lsn))
	return lsn
}

// passRestart waits until Postgres would decode from after the position.
func (m *move) passRestart(lsn string) {
	conn := connect(m.T, m.db.DSN)
	m.until("restart_lsn has passed "+lsn, func() (passed bool) {
		_, err := conn.Exec(m.Context(), "CHECKPOINT") // it logs the running transactions too, which move restart_lsn
		require.NoError(m, err)
		require.NoError(m, conn.QueryRow(m.Context(),
			`SELECT restart_lsn > $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1`, m.db.Slot,
			lsn).Scan(&passed))
		return passed
	})
}

func (m *move) count(topics []string) int64 {
	n, err := m.kafka.Count(m.Context(), topics...)
	require.NoError(m, err)
	return n
}

func (m *move) until(what string, f func() bool) {
	m.Helper()
	require.Eventually(m, f, 2*time.Minute, 100*time.Millisecond, what)
}

// settle waits until every event of the table is in the topics, and returns how many records are repeats.
func (m *move) settle(topics []string) int {
	m.Helper()
	var seen map[string]int
	m.until("all events are in Kafka", func() bool {
		seen = map[string]int{}
		require.NoError(m, m.kafka.Each(m.Context(), topics, func(r *kgo.Record) {
			for _, h := range r.Headers {
				if h.Key == "id" {
					seen[string(h.Value)]++
				}
			}
		}))
		return int64(len(seen)) >= m.written.Load()
	})
	require.Equal(m, m.written.Load(), int64(len(seen)), "no event that was not written")
	repeats := 0
	for _, n := range seen {
		repeats += n - 1
	}
	return repeats
}

// debeziumJars fetches Debezium once into the cache, where the benchmark keeps it too.
func debeziumJars(t *testing.T) string {
	t.Helper()
	cache, err := scratch.CacheDir()
	require.NoError(t, err)
	pom, err := os.ReadFile("../bench/debezium/pom.xml")
	require.NoError(t, err)
	dir := filepath.Join(cache, "bench-debezium")
	jars, done := filepath.Join(dir, "jars"), filepath.Join(dir, "complete")
	if have, err := os.ReadFile(done); err == nil && bytes.Equal(have, pom) {
		return jars
	}
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, "pom.xml")
	require.NoError(t, os.WriteFile(path, pom, 0o644))
	out, err := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "-f", path, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+jars).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(done, pom, 0o644))
	return jars
}
