package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// throughput loads the rows once and lets every contender read them, each from a slot created before the load. The
// rounds alternate and the table shows medians, because a shared machine's speed drifts.
func throughput(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("throughput", flag.ContinueOnError)
	rows := flags.Int("rows", 1_000_000, "rows to load")
	perTx := flags.Int("per-tx", 10, "rows per transaction")
	rounds := flags.Int("rounds", 3, "passes of each contender")
	debezium := flags.Bool("debezium", os.Getenv("DEBEZIUM") == "1",
		"Debezium too (needs java and mvn; fetches it on first use)")
	only := flags.String("only", "", "comma-separated parts of names: only these contenders")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := makeBed(ctx, *rows)
	if err != nil {
		return err
	}
	defer b.close()
	all := pick(contenders(b, *debezium), *only)
	for i := range all {
		for round := range *rounds {
			if err := b.createSlot(ctx, slotName(i, round)); err != nil {
				return err
			}
		}
	}
	took, err := b.load(ctx, *perTx)
	if err != nil {
		return err
	}
	fmt.Printf("%d rows, %d per transaction, loaded in %s: %s of WAL; PostgreSQL %s, Kafka %s, %s, %d cores\n\n", *rows,
		*perTx,
		took.Round(time.Millisecond), b.wal, b.postgres.Version(), kafkaVersion, runtime.Version(), runtime.NumCPU())

	tables := make([]*series, len(all))
	for i, c := range all {
		tables[i] = &series{name: c.name, note: c.missing}
	}
	for round := range *rounds {
		for i, c := range all {
			if c.missing != "" {
				continue
			}
			r, err := b.pass(ctx, c, slotName(i, round), round)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", c.name, round+1, err)
			}
			tables[i].results = append(tables[i].results, r)
			fmt.Printf("round %d  %-40s %8.3f s  client %6.2f s  walsender %6.2f s  %5.0f MB\n", round+1, c.name,
				r.Elapsed.Seconds(), r.Client.CPU.Seconds(), r.Server.Seconds(), float64(r.Client.Peak)/1e6)
		}
	}
	fmt.Println()
	report(os.Stdout, *rows, tables)
	return nil
}

func slotName(contender, round int) string { return fmt.Sprintf("bench_%d_%d", contender, round) }

func pick(all []contender, only string) []contender {
	if only == "" {
		return all
	}
	var some []contender
	for _, c := range all {
		for _, part := range strings.Split(only, ",") {
			if strings.Contains(c.name, part) {
				some = append(some, c)
				break
			}
		}
	}
	return some
}

// pass lets a contender publish to fresh topics, and compares what is there afterwards with the table.
func (b *bed) pass(ctx context.Context, c contender, slot string, round int) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var topics []string
	if c.topics != nil {
		topics = c.topics(round)
		if err := b.createTopics(ctx, topics); err != nil {
			return result{}, err
		}
	}
	r, err := c.pass(ctx, b, slot, round)
	if err != nil || topics == nil {
		return r, err
	}
	if err := b.verify(ctx, topics); err != nil {
		return r, err
	}
	return r, b.kafka.Delete(ctx, topics...)
}
