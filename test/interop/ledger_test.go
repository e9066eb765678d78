//go:build interop

package interop

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

const (
	postgresJDBC = "org.postgresql:postgresql:42.7.8"
	psycopg      = "psycopg[binary]==3.2.9"
)

var nodeLedger = []string{"kafkajs@2.2.4", "pg@8", "tsx@4"}

// sample is a consumer of examples/consumers.
type sample struct {
	name string
	// command finds the database and the brokers in variables.
	command []string
	dir     string
}

func samples(t *testing.T) []sample {
	t.Helper()
	in, err := filepath.Abs(filepath.Join("..", "..", "examples", "consumers"))
	require.NoError(t, err)
	jars, err := kafka.Jars(javaNewest)
	require.NoError(t, err)
	jdbc := fetched(t, "jdbc", func(dir string) {
		run(t.Context(), t, nil, nil, "mvn", "-q", "-B", "dependency:copy", "-Dartifact="+postgresJDBC,
			"-DoutputDirectory="+dir)
	})
	python := fetched(t, "python-ledger", func(dir string) {
		run(t.Context(), t, nil, nil, "python3", "-m", "venv", dir)
		run(t.Context(), t, nil, nil, filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--only-binary=:all:",
			confluentKafka, psycopg)
	})
	node := fetched(t, "node-ledger", func(dir string) {
		run(t.Context(), t, nil, nil, "npm", append([]string{
			"install", "--silent", "--no-audit", "--prefix", dir,
		}, nodeLedger...)...)
	})
	program, err := os.ReadFile(filepath.Join(in, "typescript", "billing.mts"))
	require.NoError(t, err)
	// Modules are looked up from the program's directory.
	require.NoError(t, os.WriteFile(filepath.Join(node, "billing.mts"), program, 0o600))
	return []sample{
		{name: "Python", command: []string{
			filepath.Join(python, "bin", "python"), filepath.Join(in, "python", "billing.py"),
		}},
		{name: "Java", command: []string{
			"java", "-cp", filepath.Join(jars, "*") + string(os.PathListSeparator) + filepath.Join(jdbc, "*"),
			filepath.Join(in, "java", "Billing.java"),
		}},
		{name: "TypeScript", command: []string{
			"node", "--import", "tsx", filepath.Join(node, "billing.mts"),
		}, dir: node},
	}
}

// Triggers of the effects' table that make an order's handler fail once, wait before its effect is written, or wait
// inside COMMIT: for an advisory lock, which a session of the test holds.
const obstacles = `
	CREATE TABLE billing_lines (n bigserial PRIMARY KEY, event_id text, order_id bigint, cents bigint);
	CREATE SEQUENCE attempts;
	CREATE FUNCTION obstacle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_WHEN = 'BEFORE' AND NEW.order_id = 10 THEN PERFORM pg_advisory_xact_lock(10); END IF;
		IF TG_WHEN = 'AFTER' AND NEW.order_id = 20 THEN PERFORM pg_advisory_xact_lock(20); END IF;
		IF TG_WHEN = 'BEFORE' AND NEW.order_id = 30 AND nextval('attempts') = 1 THEN
			RAISE EXCEPTION 'the handler fails once'; END IF;
		RETURN NEW; END $$;
	CREATE TRIGGER before_the_effect BEFORE INSERT ON billing_lines FOR EACH ROW EXECUTE FUNCTION obstacle();
	CREATE CONSTRAINT TRIGGER inside_the_commit AFTER INSERT ON billing_lines DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION obstacle()`

const orders = 60

// TestLedgerInOtherLanguages: consumers in other languages that follow docs/ledger.md. Each event is in the topic
// twice. One process is killed before its effect is written, one after its commit and before its offset; a handler
// fails once; two processes share the group. Each order is billed once, and audit finds nothing.
func TestLedgerInOtherLanguages(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			b := newLedgerBed(t, cluster(t))
			conn, err := pgx.Connect(t.Context(), b.db.DSN)
			require.NoError(t, err)
			defer conn.Close(context.WithoutCancel(t.Context()))

			lock := b.hold(10)
			first := b.start(s)
			b.await("the first one waits before its effect", waiting)
			first.kill()
			lock()
			b.await("the server has noticed", "SELECT NOT EXISTS (SELECT FROM billing_lines WHERE order_id = 10) AND "+
				"NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = "+
				"(SELECT oid FROM pg_database WHERE datname = current_database()))")
			b.forget()

			lock = b.hold(20)
			second := b.start(s)
			b.await("the second one waits in its commit", waiting)
			require.NoError(t, second.Signal(syscall.SIGSTOP))
			lock()
			b.await("committed, and it does not know", "SELECT EXISTS (SELECT FROM billing_lines WHERE order_id = 20)")
			second.kill()
			b.forget()

			third, fourth := b.start(s), b.start(s)
			b.await("all are billed", fmt.Sprintf("SELECT count(DISTINCT order_id) = %d FROM billing_lines", orders))
			require.Eventually(t, b.caughtUp, time.Minute, 100*time.Millisecond, "offsets are committed")
			third.end()
			fourth.end()
			var billed, handled, attempts int
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM billing_lines),
				(SELECT count(*) FROM processed_events WHERE status = 'COMPLETED' AND consumer = 'billing'),
				(SELECT last_value FROM attempts)`).Scan(&billed, &handled, &attempts))
			require.Equal(t, orders, billed)
			require.Equal(t, orders, handled)
			require.GreaterOrEqual(t, attempts, 2, "the handler that failed was called again")
			b.audit()
		})
	}
}

const waiting = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
	AND wait_event = 'advisory')`

// ledgerBed is an outbox with orders, and a topic that has each event twice.
type ledgerBed struct {
	*testing.T
	db      *testkit.Database
	cluster *kafka.Cluster
	conn    *pgx.Conn
	env     map[string]string
}

func newLedgerBed(t *testing.T, c *kafka.Cluster) *ledgerBed {
	t.Helper()
	ctx := t.Context()
	b := &ledgerBed{T: t, db: testkit.Postgres(t), cluster: c}
	table, err := outbox.Schema(outbox.Options{})
	require.NoError(t, err)
	ledger, err := inbox.Schema(inbox.Options{})
	require.NoError(t, err)
	b.db.Exec(t, table+ledger+obstacles)
	b.conn, err = pgx.Connect(ctx, b.db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.conn.Close(context.WithoutCancel(ctx)) })
	b.env = map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": b.db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": b.db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": b.db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": strings.Join(c.Addrs(), ","),
	}
	require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: "order.events", Partitions: 3}))
	b.db.Exec(t, "CREATE PUBLICATION "+b.db.Publication+" FOR TABLE outbox WITH (publish = 'insert')")
	b.db.Exec(t, "SELECT pg_create_logical_replication_slot('"+b.db.Slot+"', 'pgoutput')")
	b.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', n::text, 'order_placed', jsonb_build_object('order', n, 'cents', 100 * n)
		FROM generate_series(1, %d) n`, orders))
	p := begin(t, b.env)
	require.NoError(t, c.Await(ctx, orders, "order.events"))
	code, err := p.Stop(10 * time.Second)
	require.NoError(t, err)
	require.Zero(t, code)
	b.repeat()
	return b
}

// repeat writes every record of the topic once more.
func (b *ledgerBed) repeat() {
	b.Helper()
	all, err := b.cluster.Read(b.Context(), "order.events")
	require.NoError(b, err)
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.Addrs()...))
	require.NoError(b, err)
	defer producer.Close()
	for _, r := range all {
		again := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
		require.NoError(b, producer.ProduceSync(b.Context(), again).FirstErr())
	}
}

// hold takes the advisory lock that a trigger waits for.
func (b *ledgerBed) hold(key int) (release func()) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.db.DSN)
	require.NoError(b, err)
	_, err = conn.Exec(b.Context(), "SELECT pg_advisory_lock($1)", key)
	require.NoError(b, err)
	return func() { require.NoError(b, conn.Close(b.Context())) }
}

func (b *ledgerBed) await(what, is string) {
	b.Helper()
	require.Eventually(b, func() bool {
		var so bool
		require.NoError(b, b.conn.QueryRow(context.WithoutCancel(b.Context()), is).Scan(&so))
		return so
	}, time.Minute, 20*time.Millisecond, what)
}

// running is a process of a sample.
type running struct {
	*child.Child
	t *testing.T
}

func (b *ledgerBed) start(s sample) running {
	b.Helper()
	cmd := exec.Command(s.command[0], s.command[1:]...)
	u, err := url.Parse(b.db.DSN)
	require.NoError(b, err)
	password, _ := u.User.Password()
	cmd.Env = append(os.Environ(), "DATABASE_URL="+b.db.DSN, "KAFKA_BROKERS="+strings.Join(b.cluster.Addrs(), ","),
		fmt.Sprintf("JDBC_URL=jdbc:postgresql://%s%s?user=%s&password=%s", u.Host, u.Path, u.User.Username(), password))
	cmd.Dir, cmd.Stderr, cmd.Stdout = s.dir, b.Output(), b.Output()
	c, err := child.Start(cmd, syscall.SIGKILL)
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Signal(syscall.SIGKILL); <-c.Done() })
	return running{c, b.T}
}

func (r running) kill() {
	require.NoError(r.t, r.Signal(syscall.SIGKILL))
	<-r.Done()
}

func (r running) end() {
	require.NoError(r.t, r.Signal(syscall.SIGTERM))
	select {
	case <-r.Done():
	case <-time.After(30 * time.Second):
		require.Fail(r.t, "it does not stop")
	}
}

// forget removes the members that died from the group, as the broker does itself after the session timeout.
func (b *ledgerBed) forget() {
	b.Helper()
	groups, err := b.cluster.Admin().DescribeGroups(b.Context(), "billing")
	require.NoError(b, err)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.Addrs()...))
	require.NoError(b, err)
	defer client.Close()
	for _, m := range groups["billing"].Members {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = "billing"
		leaving := kmsg.NewLeaveGroupRequestMember()
		leaving.MemberID = m.MemberID
		req.Members = append(req.Members, leaving)
		_, err := req.RequestWith(b.Context(), client)
		require.NoError(b, err)
	}
}

// caughtUp reports whether the group has committed the end of the topic.
func (b *ledgerBed) caughtUp() bool {
	lags, err := b.cluster.Admin().Lag(context.WithoutCancel(b.Context()), "billing")
	if err != nil {
		return false
	}
	lag, ok := lags["billing"]
	return ok && lag.Error() == nil && len(lag.Lag["order.events"]) == 3 && lag.Lag.Total() == 0
}

// audit compares the outbox with the ledger.
func (b *ledgerBed) audit() {
	b.Helper()
	binary, err := process.Build()
	require.NoError(b, err)
	cmd := exec.CommandContext(b.Context(), binary, "audit", "--consumer", "billing", "--grace", "0s")
	for name, value := range b.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, string(out))
	require.Contains(b, string(out), fmt.Sprintf("billing: %d of %d events handled", orders, orders))
}
