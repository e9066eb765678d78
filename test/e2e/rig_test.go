//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

func TestMain(m *testing.M) {
	testkit.AtEnd(process.Clean)
	testkit.Main(m)
}

// rig is one connector's surroundings: database, Kafka, topics, oracle, and its environment.
type rig struct {
	*testing.T
	db     *testkit.Database
	kafka  *kafka.Cluster
	oracle *oracle.Oracle
	env    map[string]string
	rng    *rand.Rand // for the test's own pauses, drawn from the seed
	began  time.Time
	loses  bool // the test has a topic lose records
}

// surroundings say what of a rig is not the shared default.
type surroundings struct {
	db       *testkit.Database // default: a database of the shared server
	kafka    *kafka.Cluster    // default: the shared broker behind its proxy
	viaDSN   string            // the connector's; default: straight
	replicas int16
	env      map[string]string // more of the connector's

	walSenderTimeout string // of the database's sessions

	exactlyOnce bool // and the oracle reads with read_committed
	parts       bool // several connectors share the table by row filters
}

func newRig(t *testing.T, s surroundings) *rig {
	t.Helper()
	if s.db == nil {
		s.db = testkit.Postgres(t)
	}
	if s.kafka == nil {
		s.kafka, _ = sharedKafka(t)
	}
	if s.walSenderTimeout != "" {
		s.db.Exec(t, "ALTER DATABASE "+s.db.Name+" SET wal_sender_timeout = '"+s.walSenderTimeout+"'")
	}
	if s.viaDSN == "" {
		s.viaDSN = s.db.DSN
	}
	client := s.kafka.Client
	if s.exactlyOnce {
		var err error
		client, err = s.kafka.Inside(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		require.NoError(t, err)
		t.Cleanup(client.Close)
	}
	seed := oracle.Seed(t)
	o, err := oracle.New(t.Context(), oracle.Config{
		DSN: s.db.DSN, Kafka: client, Slot: s.db.Slot, AggregateTypes: []string{s.db.Name + "_a", s.db.Name + "_b"},
		Replicas: s.replicas, Seed: seed, Parts: s.parts,
	})
	require.NoError(t, err)
	t.Cleanup(o.Close)
	r := &rig{
		T: t, db: s.db, kafka: s.kafka, oracle: o, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(),
		env: map[string]string{
			"CDC_OUTBOX_POSTGRES_DSN": s.viaDSN, "CDC_OUTBOX_POSTGRES_SLOT": s.db.Slot,
			"CDC_OUTBOX_POSTGRES_PUBLICATION": s.db.Publication,
			"CDC_OUTBOX_KAFKA_BROKERS":        strings.Join(s.kafka.Addrs(), ","),
			"CDC_OUTBOX_MONITOR_INTERVAL":     "1s", // for checkKafkaGaps
		},
	}
	if s.exactlyOnce {
		r.env["CDC_OUTBOX_DELIVERY"] = "exactly_once"
	}
	maps.Copy(r.env, s.env)
	return r
}

// launch starts a connector without waiting; it is killed with the test.
func (r *rig) launch(more ...map[string]string) *process.Process {
	r.Helper()
	return r.launchBinary("", more...)
}

// launchBinary is launch of another version; an empty path is the binary under test.
func (r *rig) launchBinary(binary string, more ...map[string]string) *process.Process {
	r.Helper()
	env := maps.Clone(r.env)
	for _, m := range more {
		maps.Copy(env, m)
	}
	p, err := process.Start(process.Options{Binary: binary, Env: env})
	require.NoError(r, err)
	r.Cleanup(func() {
		if r.Failed() {
			r.Logf("the end of the connector's log:\n%s", p.LogTail(12))
		}
		// a payload's text, a connection string; and what -race would say
		for _, secret := range []string{"Zoë", env["CDC_OUTBOX_POSTGRES_DSN"], "DATA RACE"} {
			require.NotContains(r, p.Log(), secret, "in the log")
		}
		require.NoError(r, p.Close())
	})
	return p
}

// start starts a connector and waits until it is ready.
func (r *rig) start(more ...map[string]string) *process.Process {
	r.Helper()
	return r.startBinary("", more...)
}

// startBinary is start of another version.
func (r *rig) startBinary(binary string, more ...map[string]string) *process.Process {
	r.Helper()
	p := r.launchBinary(binary, more...)
	require.NoError(r, p.Ready(r.within(patience)))
	return p
}

// patience is how long a test waits for what should come. Where it comes, a long one costs nothing, and a busy machine
// may need it.
const patience = 90 * time.Second

// within is a context with a limit that the test's end ends too.
func (r *rig) within(d time.Duration) context.Context { return within(r.T, d) }

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// pause sleeps between low and high, as the seed says.
func (r *rig) pause(low, high time.Duration) {
	//waits:ok the moment of a fault is drawn
	time.Sleep(low + time.Duration(r.rng.Int64N(int64(high-low))))
}

// plainRig is a connector's surroundings without an oracle: one topic for one aggregate type, and an empty table.
func plainRig(t *testing.T, db *testkit.Database) (r *rig, kind, topic string) {
	t.Helper()
	emptyTable(t, db)
	c, _ := sharedKafka(t)
	kind = testkit.Name(t)
	topic = kind + ".events"
	require.NoError(t, c.Create(within(t, patience), kafkaclient.Topic{Name: topic, Partitions: 3}))
	return &rig{T: t, db: db, kafka: c, began: time.Now(), env: map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_KAFKA_BROKERS": c.Addrs()[0],
	}}, kind, topic
}

// written waits until the writers have committed n transactions more.
func written(t *testing.T, w *oracle.Writers, n int) {
	t.Helper()
	due := w.Outcomes().Committed + n
	until(t, patience, 10*time.Millisecond, func() (bool, string) {
		out := w.Outcomes()
		return out.Committed >= due, fmt.Sprintf("the writers should commit %d transactions; they have %+v", due, out)
	})
}

// insert writes rows numbered from 1 in one transaction.
func (r *rig) insert(kind string, rows int) {
	r.Helper()
	r.db.Exec(r, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT '%s', (g %% 5000)::text, 'happened', jsonb_build_object('n', g, 'pad', repeat('x', 250))
		FROM generate_series(1, %d) g`, kind, rows))
}

// verdict waits until all is confirmed and has the oracle judge. What is returned is for figures that the promises
// do not bound.
func (r *rig) verdict() *oracle.Report {
	r.Helper()
	require.NoError(r, r.oracle.AwaitCaughtUp(r.within(2*time.Minute)))
	rep, err := r.oracle.Verdict(r.within(2 * time.Minute))
	require.NoError(r, err)
	r.Logf("after %v: %v", time.Since(r.began).Round(time.Second), rep)
	require.NoError(r, rep.Err())
	require.Greater(r, rep.Rows, 50, "the writers wrote")
	r.checkKafkaGaps()
	return rep
}

// checkKafkaGaps: whatever befell the brokers, the connector says that Kafka has lost records where it has, and nowhere
// else.
func (r *rig) checkKafkaGaps() {
	r.Helper()
	conn := connect(r.T, r.db.DSN)
	var table *string
	require.NoError(r, conn.QueryRow(r.Context(), `SELECT to_regclass('cdc_outbox_gaps')::text`).Scan(&table))
	if table == nil {
		return
	}
	gaps := ""
	read := func() (bool, string) {
		require.NoError(r, conn.QueryRow(r.Context(), `SELECT coalesce(string_agg(what, '; '), '') FROM cdc_outbox_gaps
			WHERE cause LIKE 'kafka%'`).Scan(&gaps))
		return gaps != "", "there is no gap yet"
	}
	if r.loses {
		until(r.T, patience, 50*time.Millisecond, read)
		return
	}
	read()
	require.Empty(r, gaps)
}

// emptyTable makes the outbox table in a database without an oracle.
func emptyTable(t *testing.T, db *testkit.Database) {
	t.Helper()
	db.Exec(t,
		`CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
			aggregate_id text NOT NULL,
		event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz NOT NULL DEFAULT now())`)
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
