package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

// cost is what a pass took, and what it did to the server.
type cost struct {
	Elapsed time.Duration
	Client  watched
	Server  time.Duration // CPU of all of Postgres' processes
	WAL     int64         // bytes written during the pass
	Dead    int64         // dead rows that it left behind
	Idle    time.Duration // of the server's CPU while it was watched with nothing to do
}

// source is a way to relay the same rows.
type source struct {
	name string
	env  []string
	// prepare comes before the load.
	prepare func(ctx context.Context, b *bed) error
	// done waits until the table has no row left to publish.
	done string
}

// pollingCost relays the same load by polling and from the log, by turns, each from a server and a Kafka that have
// nothing else to do, and prints what it costs the server. With -against another binary of the product does the same,
// alternately, and its figures are set beside this one's.
func pollingCost(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("polling", flag.ContinueOnError)
	rows := flags.Int("rows", 300_000, "rows to load")
	perTx := flags.Int("per-tx", 10, "rows per transaction")
	rounds := flags.Int("rounds", 1, "passes of each mode and binary; the medians are printed")
	against := flags.String("against", "", "another binary of the product, to compare with")
	only := flags.String("only", "log,mark,delete", "the modes to measure")
	idle := flags.Duration("idle", 10*time.Second, "how long to watch the server with nothing to do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d rows, %d per transaction, %d rounds; Kafka %s, %s, %d cores, load before %s\n\n", *rows, *perTx,
		*rounds, kafkaVersion, runtime.Version(), runtime.NumCPU(), strings.Fields(string(load))[0])
	fmt.Printf("| | rows/s | client CPU s per million | Postgres CPU s per million | rows per Postgres CPU s | " +
		"WAL bytes per row | dead rows per row | Postgres CPU idle |\n|---|---|---|---|---|---|---|---|\n")
	binaries := []string{binary}
	if *against != "" {
		binaries = []string{*against, binary}
	}
	for _, s := range pollingSources() {
		if !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		costs := make([][]cost, len(binaries))
		for range *rounds {
			for i := range binaries {
				c, err := costOf(ctx, s, binaries[i], *rows, *perTx, *idle)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, binaries[i], err)
				}
				costs[i] = append(costs[i], c)
			}
		}
		for i := range binaries {
			printCost(s.name+", "+binaries[i], costs[i], *rows, *idle)
		}
		if len(binaries) == 2 {
			server := func(c cost) float64 { return c.Server.Seconds() }
			elapsed := func(c cost) float64 { return c.Elapsed.Seconds() }
			fmt.Printf("\n%s: %.2f times the rows per Postgres CPU second, %.2f times the rows/s\n\n", s.name,
				middle(costs[0], server)/middle(costs[1], server), middle(costs[0], elapsed)/middle(costs[1], elapsed))
		}
	}
	return nil
}

func printCost(name string, costs []cost, rows int, idle time.Duration) {
	of := func(f func(cost) float64) float64 { return middle(costs, f) }
	n := float64(rows)
	server := of(func(c cost) float64 { return c.Server.Seconds() })
	fmt.Printf("| %s | %.1f k | %.2f | %.2f | %.1f k | %.0f | %.2f | %.1f %% |\n", name,
		n/of(func(c cost) float64 { return c.Elapsed.Seconds() })/1000,
		of(func(c cost) float64 { return c.Client.CPU.Seconds() })/n*1e6, server/n*1e6, n/server/1000,
		of(func(c cost) float64 { return float64(c.WAL) })/n, of(func(c cost) float64 { return float64(c.Dead) })/n,
		100*of(func(c cost) float64 { return c.Idle.Seconds() })/idle.Seconds())
}

// middle is the median of what f takes from the passes.
func middle(costs []cost, f func(cost) float64) float64 {
	values := make([]float64, 0, len(costs))
	for _, c := range costs {
		values = append(values, f(c))
	}
	return median(values)
}

func pollingSources() []source {
	setup := func(after polling.After) func(context.Context, *bed) error {
		return func(ctx context.Context, b *bed) error {
			_, err := polling.Apply(ctx, b.dsn, polling.Setup{
				Tables: []identifier.Table{{Schema: "public", Name: "outbox"}}, After: after,
				Columns: polling.Columns{
					Key: "aggregate_id", Sequence: "seq", Published: "published_at", Timestamp: "created_at",
				},
			})
			return err
		}
	}
	return []source{
		{
			name: "log", env: []string{
				"CDC_OUTBOX_POSTGRES_SLOT=bench", "CDC_OUTBOX_POSTGRES_PUBLICATION=" + publication,
			}, prepare: func(ctx context.Context, b *bed) error { return b.createSlot(ctx, "bench") },
		},
		{
			name: "mark", env: []string{"CDC_OUTBOX_SOURCE=polling"}, prepare: setup(polling.Mark),
			done: "published_at IS NULL",
		},
		{
			name: "delete", env: []string{
				"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POLLING_ON_PUBLISHED=delete",
			}, prepare: setup(polling.Delete), done: "true",
		},
	}
}

func costOf(ctx context.Context, s source, program string, rows, perTx int, idle time.Duration) (c cost, err error) {
	b, err := makeBed(ctx, rows)
	if err != nil {
		return c, err
	}
	defer b.close()
	if err := s.prepare(ctx, b); err != nil {
		return c, err
	}
	if _, err := load(ctx, b.conn, rows, perTx); err != nil {
		return c, err
	}
	if b.want, err = b.expect(ctx); err != nil {
		return c, err
	}
	for _, sql := range []string{"VACUUM ANALYZE outbox", "CHECKPOINT", "SELECT pg_stat_reset()"} {
		if _, err := b.conn.Exec(ctx, sql); err != nil {
			return c, err
		}
	}
	topics := topicsOf("bench")
	if err := b.createTopics(ctx, topics); err != nil {
		return c, err
	}
	wal, cpu := b.walAt(ctx), b.serverCPU()
	cmd := exec.Command(program, "run")
	cmd.Env = append(os.Environ(),
		append(s.env, "CDC_OUTBOX_POSTGRES_DSN="+b.dsn, "CDC_OUTBOX_KAFKA_BROKERS="+b.brokers,
			"CDC_OUTBOX_ROUTER_TOPIC=bench.${aggregate_type}", "CDC_OUTBOX_HTTP_LISTEN=127.0.0.1:0")...)
	p, err := startProcess(ctx, cmd)
	if err != nil {
		return c, err
	}
	err = b.awaitRecords(ctx, p, topics)
	c.Elapsed = time.Since(p.started)
	for err == nil && s.done != "" {
		var left int
		if err = b.conn.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM outbox WHERE "+s.done+" LIMIT 1) x").
			Scan(&left); left == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.Server, c.WAL = b.serverCPU()-cpu, b.walAt(ctx)-wal
	if err == nil {
		before := b.serverCPU()
		time.Sleep(idle)
		c.Idle = b.serverCPU() - before
		err = b.verify(ctx, topics)
	}
	if serr := p.stop(); err == nil {
		err = serr
	}
	c.Client = p.used()
	if err == nil {
		time.Sleep(2 * time.Second) // sessions report when they end
		err = b.conn.QueryRow(ctx, "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'outbox'").Scan(&c.Dead)
	}
	return c, err
}

func (b *bed) walAt(ctx context.Context) (at int64) {
	_ = b.conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&at)
	return at
}

// serverCPU is the CPU time of the postmaster, of its children, and of the children that have ended (cutime and cstime
// of proc_pid_stat(5)).
func (b *bed) serverCPU() time.Duration {
	main := b.postgres.PID()
	total, _ := processCPU(main)
	total += childrenCPU(main)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(f) > 2 && f[1] == strconv.Itoa(main) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			cpu, _ := processCPU(pid)
			total += cpu
		}
	}
	return total
}

func childrenCPU(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(f) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(f[13], 10, 64)
	system, _ := strconv.ParseInt(f[14], 10, 64)
	return time.Duration(user+system) * time.Second / clockTicks
}
