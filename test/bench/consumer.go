package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// consumerBed has the events of one topic, a ledger, and a table for the effects.
type consumerBed struct {
	*bed
	pool    *pgxpool.Pool
	limited *pgxpool.Pool // its transactions have a limit of idle time
	topic   string        // of the pass
	events  int
	most    int // events of a batch
	handled *handledEvents
}

// handledEvents counts what a pass has handled.
type handledEvents struct {
	want  int64
	n     atomic.Int64
	first atomic.Int64 // Unix time in nanoseconds
	all   chan struct{}
}

// add counts events whose transaction is committed, or is about to be.
func (h *handledEvents) add(n int) {
	h.first.CompareAndSwap(0, time.Now().UnixNano())
	if h.n.Add(int64(n)) >= h.want {
		select {
		case h.all <- struct{}{}:
		default:
		}
	}
}

// consumers measures package inbox/consumer beside loops written by hand, over the same topic, ledger and server. Each
// pass is a group of its own with one member, whose effects are one row an event.
func consumers(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("consumer", flag.ContinueOnError)
	events := flags.Int("events", 200_000, "events in the topic, for batches; half of them one by one")
	most := flags.Int("batch", 200, "events of a batch")
	rounds := flags.Int("rounds", 3, "passes of each")
	roundTrip := flags.Duration("round-trip", 0, "to Postgres, through a proxy in this process")
	only := flags.String("only", "", "parts of the names of the ways to measure, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &consumerBed{bed: &bed{}, events: *events, most: *most}
	defer b.close()
	if err := b.start(ctx); err != nil {
		return err
	}
	if *roundTrip > 0 {
		far, err := b.moveAway(*roundTrip)
		if err != nil {
			return err
		}
		defer far.Close()
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer b.pool.Close()
	defer b.limited.Close()
	fmt.Printf("%d events, %d partitions, batches of %d; PostgreSQL %s, Kafka %s, %s, %d cores\n\n", *events,
		partitions, *most, b.postgres.Version(), kafkaVersion, runtime.Version(), runtime.NumCPU())
	fmt.Println("| CPU, µs an event | events/s | own | Postgres | Kafka |\n|---|---|---|---|---|")
	for round := range *rounds {
		for _, w := range consumerWays {
			if !contains(w.name, *only) {
				continue
			}
			if err := b.measure(ctx, w, fmt.Sprintf("%s %d", w.name, round)); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}

func contains(name, parts string) bool {
	for part := range strings.SplitSeq(parts, ",") {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// moveAway puts a distance between the consumer and Postgres.
func (b *consumerBed) moveAway(roundTrip time.Duration) (*proxy.Proxy, error) {
	far, err := proxy.Start(b.postgres.Addr(), proxy.Raw)
	if err != nil {
		return nil, err
	}
	for _, d := range []proxy.Direction{proxy.Up, proxy.Down} {
		far.SetShape(d, proxy.Shape{Latency: roundTrip / 2})
	}
	b.dsn = b.postgres.DSNVia(far.Addr(), "postgres")
	return far, nil
}

// prepare makes the tables, and writes the events.
func (b *consumerBed) prepare(ctx context.Context) error {
	ddl, err := inbox.Schema(inbox.Options{})
	if err != nil {
		return err
	}
	if _, err := b.conn.Exec(ctx, ddl+"; CREATE TABLE effects (event text, key text, data bytea)"); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		return err
	}
	config.MaxConns = partitions + 2
	if b.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	limited := config.Copy()
	limited.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "65000"
	if b.limited, err = pgxpool.NewWithConfig(ctx, limited); err != nil {
		return err
	}
	for topic, events := range map[string]int{oneByOne: b.events / 2, inBatches: b.events} {
		if err := b.produce(ctx, topic, events); err != nil {
			return err
		}
	}
	return nil
}

// The topics with the events.
const (
	oneByOne  = "one_by_one.events"
	inBatches = "in_batches.events"
)

func (b *consumerBed) produce(ctx context.Context, topic string, events int) error {
	if err := b.createTopics(ctx, []string{topic, topic + ".DLT"}); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.brokers, ",")...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, events)
	value := []byte(strings.Repeat("0123456789abcdef", 20))
	for i := range events {
		records[i] = &kgo.Record{
			Key: []byte("key-" + strconv.Itoa(i%aggregateIDs)), Value: value,
			Headers: []kgo.RecordHeader{
				{Key: "id", Value: fmt.Appendf(nil, "00000000-0000-4000-8000-%012x", i)},
				{Key: "type", Value: []byte("Changed")},
				{Key: "position", Value: fmt.Appendf(nil, "%016X-%08X", i, 0)},
			},
		}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// measure runs one way until it has handled all, and prints what it took.
func (b *consumerBed) measure(ctx context.Context, w consumerWay, group string) error {
	if _, err := b.conn.Exec(ctx, "TRUNCATE processed_events, effects; CHECKPOINT"); err != nil {
		return err
	}
	want := b.events
	if b.topic = inBatches; !w.batches {
		want, b.topic = want/2, oneByOne
	}
	b.handled = &handledEvents{want: int64(want), all: make(chan struct{}, 1)}
	before, err := b.usage(ctx)
	if err != nil {
		return err
	}
	passing, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		defer stop()
		failed = w.run(passing, b, group)
	})
	select {
	case <-b.handled.all:
	case <-passing.Done():
	}
	n := b.handled.n.Load()
	took := time.Since(time.Unix(0, b.handled.first.Load()))
	after, err := b.usage(ctx)
	stop()
	running.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if n < b.handled.want {
		return fmt.Errorf("%d of %d events were handled", n, want)
	}
	perEvent := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f |\n", w.name, float64(n)/took.Seconds(),
		perEvent(after.own-before.own), perEvent(after.postgres-before.postgres), perEvent(after.kafka-before.kafka))
	return b.verify(ctx)
}

// verify compares the effects with the ledger: one for each event.
func (b *consumerBed) verify(ctx context.Context) error {
	var effects, events, claims int64
	if err := b.conn.QueryRow(ctx, `SELECT count(*), count(DISTINCT event), (SELECT count(*) FROM processed_events
		WHERE status = 'COMPLETED') FROM effects`).Scan(&effects, &events, &claims); err != nil {
		return err
	}
	if effects != events || effects != claims || effects < b.handled.want {
		return fmt.Errorf("%d effects of %d events with %d claims; %d events were to be handled",
			effects, events, claims, b.handled.want)
	}
	return nil
}

// cpuUsage is what this process and the servers have used.
type cpuUsage struct{ own, postgres, kafka time.Duration }

func (b *consumerBed) usage(ctx context.Context) (u cpuUsage, err error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return u, err
	}
	u.kafka = kafkaCPU(b.kafka)
	u.own = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	rows, err := b.conn.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	if err != nil {
		return u, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	for _, pid := range pids {
		if cpu, err := processCPU(pid); err == nil { // otherwise it has ended
			u.postgres += cpu
		}
	}
	return u, err
}
