package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// latency writes single-row transactions at a fixed rate and measures, for each, the time from the return of its commit
// to the arrival of its record at a consumer in this process. Both ends are one clock. The consumer's fetch is in it,
// so the time until the record was appended is shorter; the way of the commit's answer to the client is not.
func latency(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("latency", flag.ContinueOnError)
	rate := flags.Int("rate", 500, "transactions per second")
	duration := flags.Duration("for", 30*time.Second, "how long")
	warmup := flags.Duration("warm-up", 3*time.Second, "left out of the figures")
	delivery := flags.String("delivery", atLeastOnce, atLeastOnce+" or "+exactlyOnce)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if missing := missingBinary(); missing != "" {
		return fmt.Errorf("%s", missing)
	}
	total := int(float64(*rate) * (*duration + *warmup).Seconds())
	b, err := makeBed(ctx, total)
	if err != nil {
		return err
	}
	defer b.close()
	const slot = "bench_latency"
	if err := b.createSlot(ctx, slot); err != nil {
		return err
	}
	topics := topicsOf("latency")
	if err := b.createTopics(ctx, topics); err != nil {
		return err
	}
	p, err := startProcess(ctx, ourCommand(b, slot, "latency", *delivery))
	if err != nil {
		return err
	}
	run, cancel := context.WithTimeout(ctx, *duration+*warmup+time.Minute)
	defer cancel()
	t := &trips{committed: make([]time.Time, total+1), arrived: make([]time.Time, total+1)}
	err = t.measure(run, b, topics, *rate, total)
	cpu, _ := processCPU(p.PID())
	if serr := p.stop(); err == nil {
		err = serr
	}
	if err != nil {
		return fmt.Errorf("%w; the end of the connector's output:\n%s", err, p.output)
	}
	h, negative := t.histogram(int(float64(*rate) * warmup.Seconds()))
	fmt.Printf("%d single-row transactions/s for %s, %s; PostgreSQL %s, Kafka %s, %s, %d cores\n\n", *rate, *duration,
		*delivery, b.postgres.Version(), kafkaVersion, runtime.Version(), runtime.NumCPU())
	fmt.Println("| commit returned → at the consumer | p50 | p90 | p99 | p99.9 | max | connector, cores |")
	fmt.Println("|---|---|---|---|---|---|---|")
	fmt.Printf("| %d events | %s | %s | %s | %s | %s | %.2f |\n", h.TotalCount(), ms(h, 50), ms(h, 90), ms(h, 99),
		ms(h, 99.9), ms(h, 100), cpu.Seconds()/t.took.Seconds())
	if negative > 0 {
		fmt.Printf("\n%d records were at the consumer before the commit's answer was at the writer; they "+
			"count as 0.\n", negative)
	}
	return nil
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

// measure writes the rows over writers connections and reads them back.
func (t *trips) measure(ctx context.Context, b *bed, topics []string, rate, total int) error {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(b.brokers), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMinBytes(1),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	failed := make(chan error, writers+1)
	var all sync.WaitGroup
	all.Go(func() { failed <- t.read(ctx, consumer, total) })
	start := time.Now().Add(time.Second) // connections and the consumer's first fetch are made before
	for w := range writers {
		all.Go(func() { failed <- t.write(ctx, b.dsn, start, rate, w, total) })
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

func (t *trips) write(ctx context.Context, dsn string, start time.Time, rate, writer, total int) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	sql := fmt.Sprintf(insertRows, aggregateIDs, "$1::int", "$1::int")
	for n := 1 + writer; n <= total; n += writers {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(rate))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(due)):
		}
		if _, err := conn.Exec(ctx, sql, n); err != nil {
			return err
		}
		t.committed[n] = time.Now()
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
