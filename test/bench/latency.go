package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// latency writes single-row transactions at a fixed rate and measures, for each, the time from the return of its commit
// to the arrival of its record at a consumer in this process. Both ends are one clock. The consumer's fetch is in it,
// so the time until the record was appended is shorter; the way of the commit's answer to the client is not.
//
// By turns, the writer sends each record itself once its commit has returned. That loses events, so it is no way to
// publish them, but it shows how much of the time is Kafka's, the consumer's and the machine's.
func latency(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("latency", flag.ContinueOnError)
	rate := flags.Int("rate", 500, "transactions per second")
	duration := flags.Duration("for", 30*time.Second, "how long")
	warmup := flags.Duration("warm-up", 3*time.Second, "left out of the figures")
	delivery := flags.String("delivery", atLeastOnce, atLeastOnce+" or "+exactlyOnce)
	rounds := flags.Int("rounds", 1, "passes of each")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if missing := missingBinary(); missing != "" {
		return fmt.Errorf("%s", missing)
	}
	live := liveStream{
		rate: *rate, skip: int(float64(*rate) * warmup.Seconds()),
		total: int(float64(*rate) * (*duration + *warmup).Seconds()),
	}
	b, err := makeBed(ctx, live.total)
	if err != nil {
		return err
	}
	defer b.close()
	fmt.Printf("%d single-row transactions/s for %s, %s; PostgreSQL %s, Kafka %s, %s, %d cores\n\n", *rate, *duration,
		*delivery, b.postgres.Version(), kafkaVersion, runtime.Version(), runtime.NumCPU())
	fmt.Println("| commit returned → at the consumer | p50 | p90 | p99 | p99.9 | max | at once | connector, cores |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for round := range *rounds {
		if err := live.relayed(ctx, b, fmt.Sprintf("latency_%d", round), *delivery); err != nil {
			return err
		}
		if err := live.direct(ctx, b, fmt.Sprintf("direct_%d", round)); err != nil {
			return err
		}
	}
	fmt.Println("\nAt once: at the consumer before the commit's answer was at the writer. It counts as 0.")
	return nil
}

// liveStream is what a pass writes, one row a transaction. The first skip rows are left out of the figures.
type liveStream struct{ rate, skip, total int }

// relayed measures a pass through the connector.
func (l liveStream) relayed(ctx context.Context, b *bed, name, delivery string) error {
	if err := b.createSlot(ctx, name); err != nil {
		return err
	}
	topics, err := l.prepare(ctx, b, name)
	if err != nil {
		return err
	}
	p, err := startProcess(ctx, ourCommand(b, name, name, delivery))
	if err != nil {
		return err
	}
	t := newTrips(l.total)
	err = t.measure(ctx, b, topics, l, nil)
	cpu, _ := processCPU(p.PID())
	if serr := p.stop(); err == nil {
		err = serr
	}
	if err != nil {
		return fmt.Errorf("%w; the end of the connector's output:\n%s", err, p.output)
	}
	t.report("cdc-outbox", l.skip, fmt.Sprintf("%.2f", cpu.Seconds()/t.took.Seconds()))
	return nil
}

// direct measures a pass in which the writers send the records.
func (l liveStream) direct(ctx context.Context, b *bed, name string) error {
	topics, err := l.prepare(ctx, b, name)
	if err != nil {
		return err
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.brokers), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer producer.Close()
	t := newTrips(l.total)
	note := []byte(strings.Repeat("x", 330)) // as long as the rows' payload
	err = t.measure(ctx, b, topics, l, func(n int) {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012x", n)
		producer.Produce(ctx, &kgo.Record{
			Topic: topics[n%len(topics)], Key: []byte(strconv.Itoa(n % aggregateIDs)), Value: note,
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}},
		}, nil)
	})
	if err != nil {
		return err
	}
	t.report("sent by the writer itself", l.skip, "")
	return nil
}

// prepare empties the table and creates the pass's topics.
func (l liveStream) prepare(ctx context.Context, b *bed, prefix string) ([]string, error) {
	if _, err := b.conn.Exec(ctx, "TRUNCATE outbox"); err != nil {
		return nil, err
	}
	topics := topicsOf(prefix)
	return topics, b.createTopics(ctx, topics)
}

func (t *trips) report(name string, skip int, cores string) {
	h, negative := t.histogram(skip)
	fmt.Printf("| %s, %d events | %s | %s | %s | %s | %s | %d | %s |\n", name, h.TotalCount(), ms(h, 50), ms(h, 90),
		ms(h, 99), ms(h, 99.9), ms(h, 100), negative, cores)
}

func ms(h *hdrhistogram.Histogram, percentile float64) string {
	return fmt.Sprintf("%.1f ms", float64(h.ValueAtPercentile(percentile))/1000)
}

// trips are the two ends of each row's way, by row number. Writers and the reader touch different slices.
type trips struct {
	committed []time.Time
	arrived   []time.Time
	took      time.Duration
}

func newTrips(total int) *trips {
	return &trips{committed: make([]time.Time, total+1), arrived: make([]time.Time, total+1)}
}

// measure writes the rows over writers connections and reads them back. sent, which may be nil, is called after each
// commit.
func (t *trips) measure(ctx context.Context, b *bed, topics []string, l liveStream, sent func(n int)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(l.total/l.rate)*time.Second+time.Minute)
	defer cancel()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(b.brokers), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMinBytes(1),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	failed := make(chan error, writers+1)
	var all sync.WaitGroup
	all.Go(func() { failed <- t.read(ctx, consumer, l.total) })
	start := time.Now().Add(time.Second) // connections and the consumer's first fetch are made before
	for w := range writers {
		all.Go(func() { failed <- t.write(ctx, b.dsn, start, l, w, sent) })
	}
	for range writers + 1 {
		if err = <-failed; err != nil {
			break
		}
	}
	t.took = time.Since(start)
	if err == nil {
		all.Wait()
	}
	return err
}

// writers share the rate, so that one slow commit does not delay the commits due after it.
const writers = 4

func (t *trips) write(ctx context.Context, dsn string, start time.Time, l liveStream, writer int,
	sent func(n int),
) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	sql := fmt.Sprintf(insertRows, aggregateIDs, "$1::int", "$1::int")
	for n := 1 + writer; n <= l.total; n += writers {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(due)):
		}
		if _, err := conn.Exec(ctx, sql, n); err != nil {
			return err
		}
		t.committed[n] = time.Now()
		if sent != nil {
			sent(n)
		}
	}
	return nil
}

func (t *trips) read(ctx context.Context, consumer *kgo.Client, total int) error {
	for seen := 0; seen < total; {
		fetches := consumer.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records arrived: %w", seen, total, ctx.Err())
		}
		for _, e := range fetches.Errors() {
			return e.Err
		}
		var err error
		fetches.EachRecord(func(r *kgo.Record) {
			n, nerr := rowNumber(header(r, "id"))
			switch {
			case nerr != nil:
				err = nerr
			case !t.arrived[n].IsZero():
				err = fmt.Errorf("row %d arrived twice", n)
			default:
				t.arrived[n] = now
				seen++
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// histogram is in microseconds, without the first rows.
func (t *trips) histogram(skip int) (h *hdrhistogram.Histogram, negative int) {
	h = hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
	for n := skip + 1; n < len(t.arrived); n++ {
		d := t.arrived[n].Sub(t.committed[n])
		if d < 0 {
			d = 0
			negative++
		}
		_ = h.RecordValue(d.Microseconds()) // fails only beyond ten minutes, and the run ends earlier
	}
	return h, negative
}
