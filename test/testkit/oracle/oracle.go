package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// Config of an oracle. DSN and Kafka lead straight to the servers: the relay's proxies are not in the oracle's way.
type Config struct {
	DSN            string
	Kafka          *kafkaclient.Client
	Slot           string   // the relay's, which need not exist yet
	AggregateTypes []string // unlike the aggregate types of other tests on the same Kafka
	Partitions     int32    // of each topic. Default 3
	Replicas       int16    // default -1, the cluster's default
	Keys           int      // per aggregate type. Default 20
	Seed           uint64   // see Seed

	// Polling says that the relay polls the table: everything is published when every row is marked, positions are not
	// compared, and order is a matter of keys, not of partitions. Slot is then a name for the oracle's own.
	Polling bool

	// Parts says that several relays share the table, each with a part of the keys: order is a matter of keys, not of
	// partitions. Slot is the slot of the relay that begins.
	Parts bool
}

// EnvSeed replays a run's schedule.
const EnvSeed = "CDC_OUTBOX_TEST_SEED"

// Seed returns the seed of $CDC_OUTBOX_TEST_SEED or a new one, and logs it: the same seed draws the same transactions
// and pauses again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64N(1 << 32)
	if s := os.Getenv(EnvSeed); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("oracle: %s: %v", EnvSeed, err)
		}
		seed = n
	}
	t.Logf("seed: %s=%d", EnvSeed, seed)
	return seed
}

// Oracle judges one relay on one outbox table.
type Oracle struct {
	cfg        Config
	sampler    *Sampler
	generation int // of writers
	archive    archive
	blind      atomic.Bool
}

// New creates the outbox table, the oracle's own publication and slot (so that it sees every row from the first on) and
// the topics, and starts to watch the relay's slot. Close it.
func New(ctx context.Context, cfg Config) (*Oracle, error) {
	if cfg.Partitions == 0 {
		cfg.Partitions = 3
	}
	if cfg.Keys == 0 {
		cfg.Keys = 20
	}
	o := &Oracle{cfg: cfg}
	if err := o.prepare(ctx); err != nil {
		return nil, err
	}
	if !cfg.Polling {
		o.sampler = Watch(cfg.DSN, cfg.Slot, o.ends)
	}
	return o, nil
}

func (o *Oracle) prepare(ctx context.Context) error {
	schema, err := outbox.Schema(outbox.Options{})
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, o.cfg.DSN)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		schema,
		"CREATE TABLE oracle_counter (kind text, key text, n bigint, PRIMARY KEY (kind, key)) WITH (fillfactor = 50)",
		fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE outbox WITH (publish = 'insert')", identifier(o.truthName())),
		fmt.Sprintf("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", quote(o.truthName())),
	} {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return err
		}
	}
	for _, topic := range o.Topics() {
		if err := o.cfg.Kafka.Create(ctx, kafkaclient.Topic{
			Name: topic, Partitions: o.cfg.Partitions, Replicas: o.cfg.Replicas,
		}); err != nil {
			return err
		}
	}
	return nil
}

// truthName names the oracle's own slot and publication.
func (o *Oracle) truthName() string { return o.cfg.Slot + "_truth" }

// Topics are the topics of the aggregate types.
func (o *Oracle) Topics() []string {
	var topics []string
	for _, kind := range o.cfg.AggregateTypes {
		topics = append(topics, topicOf(kind))
	}
	return topics
}

func topicOf(kind string) string { return kind + ".events" }

// Blind has the sampler take no ends from Kafka while on is set. A leader that thaws answers for a moment as the leader
// that it was, with the ends of then.
func (o *Oracle) Blind(on bool) { o.blind.Store(on) }

// Close ends the sampling.
func (o *Oracle) Close() {
	if o.sampler != nil {
		o.sampler.Stop()
	}
}

// AwaitCaughtUp waits until the relay's slot is confirmed to where the WAL ended when the call began: everything
// committed is in Kafka and confirmed, or the relay is wrong about it.
func (o *Oracle) AwaitCaughtUp(ctx context.Context) error {
	if o.cfg.Polling {
		conn, err := o.connectPatiently(ctx)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		return awaitMarked(ctx, conn)
	}
	return o.AwaitConfirmed(ctx)
}

// AwaitConfirmed is AwaitCaughtUp by the slot, also for a relay that polled before.
func (o *Oracle) AwaitConfirmed(ctx context.Context) error {
	conn, err := o.connectPatiently(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var target string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&target); err != nil {
		return err
	}
	for {
		var confirmed string
		var reached bool
		err := conn.QueryRow(ctx, "SELECT confirmed_flush_lsn::text, confirmed_flush_lsn >= $2::pg_lsn FROM "+
			"pg_replication_slots WHERE slot_name = $1", o.cfg.Slot, target).Scan(&confirmed, &reached)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("look at the slot: %w", err)
		}
		if reached {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the slot is confirmed to %s, %s was to be reached: %w", confirmed, target, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// awaitMarked waits until no row is left that is not marked.
func awaitMarked(ctx context.Context, conn *pgx.Conn) error {
	for {
		var left int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM outbox WHERE published_at IS NULL").Scan(&left); err != nil {
			return fmt.Errorf("count what is not marked: %w", err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d rows are not marked: %w", left, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// connectPatiently connects to a server that may be starting.
func (o *Oracle) connectPatiently(ctx context.Context) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, o.cfg.DSN)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Confirmed is the relay's slot position now; 0 when there is no slot.
func (o *Oracle) Confirmed(ctx context.Context) (LSN, error) {
	conn, err := pgx.Connect(ctx, o.cfg.DSN)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	var at *uint64
	err = conn.QueryRow(ctx, "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE "+
		"slot_name = $1", o.cfg.Slot).Scan(&at)
	if err != nil || at == nil {
		return 0, err
	}
	return LSN(*at), nil
}

// Verdict ends the sampling, reads the truth and Kafka, and compares. Writers must have stopped and the relay have
// caught up.
func (o *Oracle) Verdict(ctx context.Context) (*Report, error) {
	var samples []Sample
	if o.sampler != nil {
		samples = o.sampler.Stop()
	}
	found := &Report{}
	truth, err := o.Truth(ctx, found)
	if err != nil {
		return nil, err
	}
	var records []Record
	partitions := map[string]int32{}
	for _, topic := range o.Topics() {
		partitions[topic] = o.cfg.Partitions
	}
	if err := o.cfg.Kafka.Each(ctx, o.Topics(), func(r *kgo.Record) {
		records = append(records, o.archive.behind(RecordOf(r)))
	}); err != nil {
		return nil, fmt.Errorf("read Kafka: %w", err)
	}
	records = append(records, o.archive.records...)
	check := Check
	switch {
	case o.cfg.Polling:
		check = CheckKeys
	case o.cfg.Parts:
		check = CheckParts
	}
	rep := check(truth, records, partitions)
	CheckSlot(rep, truth, records, samples)
	rep.merge(found)
	return rep, nil
}

// Truth reads the committed rows in commit order; contradictions go to rep.
func (o *Oracle) Truth(ctx context.Context, rep *Report) ([]Row, error) {
	conn, err := o.connectPatiently(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	truth, err := ReadTruth(ctx, conn, o.truthName(), o.truthName(), topicOf, rep)
	if err != nil {
		return nil, fmt.Errorf("read the truth: %w", err)
	}
	return truth, nil
}

// RecordOf takes from a record what the checker compares.
func RecordOf(r *kgo.Record) Record {
	out := Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		switch h.Key {
		case "id":
			out.ID = string(h.Value)
		case "position":
			out.Position = string(h.Value)
		}
	}
	return out
}
