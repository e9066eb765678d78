package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// besideRows is where the numbers of the rows begin that are there before: the live rows are counted from 1.
const besideRows = 100_000_000

// companion is a command that runs beside a live stream.
type companion struct {
	name string
	args []string
	env  []string
	done string // what counts its rows; empty: the records in its topics
}

// ownPublication is the snapshot's, which its connector creates with its slot.
const ownPublication = "bench_own"

func companions() []companion {
	return []companion{
		{name: "replay", args: []string{"replay", "--all"}},
		{name: "replay --rate 0", args: []string{"replay", "--all", "--rate", "0"}},
		{name: "repair", args: []string{"repair"}}, // its topics are empty, so it publishes every row
		{
			name: "initial snapshot", args: []string{"run"},
			env: []string{
				"CDC_OUTBOX_POSTGRES_SLOT=own", "CDC_OUTBOX_POSTGRES_PUBLICATION=" + ownPublication,
				"CDC_OUTBOX_POSTGRES_SNAPSHOT=initial",
			},
		},
		{
			name: "prune", args: []string{"prune", "--older-than", "7d", "--trust-slot"},
			done: "SELECT count(*) FROM outbox WHERE created_at < now() - interval '7 days'",
		},
	}
}

// beside measures the latency of a stream of single-row transactions alone, and beside each companion, by turns.
func beside(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("beside", flag.ContinueOnError)
	rows := flags.Int("rows", 500_000, "rows that are in the table before")
	rate := flags.Int("rate", 500, "transactions per second of the live stream")
	duration := flags.Duration("for", 20*time.Second, "how long the live stream lasts, each time")
	warmup := flags.Duration("warm-up", 3*time.Second, "of that, left out of the figures")
	backlog := flags.Int("backlog", 1_000_000, "rows that a catch-up begins with; 0 for no catch-up")
	only := flags.String("only", "", "a part of the companions' names")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if missing := missingBinary(); missing != "" {
		return fmt.Errorf("%s", missing)
	}
	b, err := makeBed(ctx, *rows)
	if err != nil {
		return err
	}
	defer b.close()
	if strings.Contains(catchUpName, *only) && *backlog > 0 {
		if err := b.catchUp(ctx, *backlog); err != nil {
			return fmt.Errorf("%s: %w", catchUpName, err)
		}
	}
	if err := b.fillOld(ctx, *rows); err != nil {
		return err
	}
	live := liveStream{rate: *rate, skip: int(float64(*rate) * warmup.Seconds()), total: int(float64(*rate) *
		duration.Seconds())}
	fmt.Printf("%d rows in the table, %d live transactions/s for %s; PostgreSQL %s, Kafka %s, %s, %d cores\n\n", *rows,
		*rate, *duration, b.postgres.Version(), kafkaVersion, runtime.Version(), runtime.NumCPU())
	fmt.Printf("| beside | live rows/s | live p50 | live p99 | live max | its rows/s | " +
		"its RSS after 10 %%, 50 %%, at the end |\n" +
		"|---|---|---|---|---|---|---|\n")
	for i, c := range companions() {
		if !strings.Contains(c.name, *only) {
			continue
		}
		for _, one := range []*companion{nil, &c} {
			if err := b.beside(ctx, one, i, live); err != nil {
				return fmt.Errorf("beside %s: %w", c.name, err)
			}
		}
	}
	return nil
}

// fillOld writes the rows that are there before, a month old.
func (b *bed) fillOld(ctx context.Context, rows int) error {
	insert := fmt.Sprintf(insertRows, aggregateIDs, strconv.Itoa(besideRows), strconv.Itoa(besideRows+rows-1))
	for _, sql := range []string{
		"ALTER TABLE outbox ALTER created_at SET DEFAULT now() - interval '30 days'",
		"CREATE INDEX ON outbox (created_at)",
		insert, "ALTER TABLE outbox ALTER created_at SET DEFAULT now()", "VACUUM ANALYZE outbox", "CHECKPOINT",
	} {
		if _, err := b.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// liveStream is what a pass writes, one row a transaction. The first skip rows are left out of the figures.
type liveStream struct{ rate, skip, total int }

// beside is one pass: the live stream, with the companion if there is one.
func (b *bed) beside(ctx context.Context, c *companion, i int, live liveStream) error {
	name := fmt.Sprintf("alone_%d", i)
	if c != nil {
		name = fmt.Sprintf("beside_%d", i)
	}
	if err := b.createSlot(ctx, name); err != nil {
		return err
	}
	own := topicsOf("own_" + name)
	if err := b.createTopics(ctx, append(topicsOf(name), own...)); err != nil {
		return err
	}
	p, err := startProcess(ctx, ourCommand(b, name, name, atLeastOnce))
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // the stream has begun
	m := mate{}
	if c != nil {
		if m, err = b.startMate(ctx, c, name); err != nil {
			return err
		}
	}
	t := newTrips(live.total)
	err = t.measure(ctx, b, topicsOf(name), live, nil)
	its := "– | –"
	if c != nil {
		its = m.stop(ctx, b, own)
	}
	if serr := p.stop(); err == nil {
		err = serr
	}
	if err != nil {
		return fmt.Errorf("%w; the end of the connector's output:\n%s", err, p.output)
	}
	h, _ := t.histogram(live.skip)
	label := "nothing"
	if c != nil {
		label = c.name
	}
	fmt.Printf("| %s | %.0f | %s | %s | %s | %s |\n", label, t.rate(live.skip), ms(h, 50), ms(h, 99), ms(h, 100), its)
	_, err = b.conn.Exec(ctx, "DELETE FROM outbox WHERE created_at > now() - interval '7 days'")
	return err
}

// rate is how many rows arrived a second, without the first ones.
func (t *trips) rate(skip int) float64 {
	last := t.arrived[skip+1]
	for _, at := range t.arrived[skip+1:] {
		if at.After(last) {
			last = at
		}
	}
	return float64(len(t.arrived)-skip-2) / last.Sub(t.arrived[skip+1]).Seconds()
}

// mate is a companion's process while it runs.
type mate struct {
	*process
	of     *companion
	before int64
	rss    func() []int64
}

func (b *bed) startMate(ctx context.Context, c *companion, live string) (m mate, err error) {
	m.of = c
	if m.before, err = b.left(ctx, c); err != nil {
		return m, err
	}
	cmd := ourCommand(b, live, "own_"+live, atLeastOnce)
	cmd.Args, cmd.Env = append([]string{binary}, c.args...), append(cmd.Env, c.env...)
	if m.process, err = startProcess(ctx, cmd); err != nil {
		return m, err
	}
	m.rss = watchMemory(ctx, cmd)
	return m, nil
}

func (b *bed) left(ctx context.Context, c *companion) (n int64, err error) {
	if c.done != "" {
		err = b.conn.QueryRow(ctx, c.done).Scan(&n)
	}
	return n, err
}

// stop ends the companion if it has not ended, and describes what it did.
func (m *mate) stop(ctx context.Context, b *bed, topics []string) string {
	note := ", interrupted"
	select {
	case <-m.Done():
		note = ""
		if err := m.failure(); err != nil {
			note = ", failed: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
	default:
		_ = m.process.stop() // a command that is interrupted ends with an exit code of its own
	}
	rss := m.rss()
	took := float64(len(rss)) / 10 // a sample each 100 ms
	after, _ := b.left(ctx, m.of)
	rows := m.before - after
	if m.of.done == "" {
		if client, err := b.kafka.Inside(); err == nil {
			rows, _ = client.Count(ctx, topics...)
			client.Close()
		}
	}
	if rows == 0 && note == ", interrupted" {
		note += ": " + strings.ReplaceAll(m.output.String(), "\n", " ")
	}
	at := func(share float64) string {
		if len(rss) == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f MB", float64(rss[int(share*float64(len(rss)-1))])/1e6)
	}
	return fmt.Sprintf("%.0f (%d in %.1f s%s) | %s, %s, %s", float64(rows)/max(took, 0.1), rows, took, note, at(0.1),
		at(0.5), at(1))
}

// watchMemory samples a process' resident memory ten times a second, until it ends.
func watchMemory(ctx context.Context, cmd *exec.Cmd) func() []int64 {
	var samples []int64
	end := watchAsync(ctx, func(ctx context.Context) watched {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", cmd.Process.Pid))
			f := strings.Fields(string(raw))
			if err != nil || len(f) < 2 || f[1] == "0" {
				return watched{}
			}
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			samples = append(samples, pages*int64(os.Getpagesize()))
			select {
			case <-ctx.Done():
				return watched{}
			case <-tick.C:
			}
		}
	})
	return func() []int64 { end(); return samples }
}
