package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// throughput loads the rows and lets every contender read them, each from a slot created before the load. The rounds
// alternate and the tables show medians, because a shared machine's speed drifts.
func throughput(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("throughput", flag.ContinueOnError)
	rows := flags.Int("rows", 1_000_000, "rows to load")
	perTx := flags.Int("per-tx", 10, "rows per transaction")
	single := flags.Bool("single", true, "a second load, of one row per transaction")
	rounds := flags.Int("rounds", 5, "passes of each contender")
	warmUps := flags.Int("warm-up", 10, "passes with transactions before one counts")
	debezium := flags.Bool("debezium", os.Getenv("DEBEZIUM") == "1",
		"Debezium too (needs java and mvn; fetches it on first use)")
	debeziumRounds := flags.Int("debezium-rounds", 0,
		"passes of Debezium, which takes several times as long as the others; default: as many as they have")
	only := flags.String("only", "", "comma-separated parts of names: only these contenders")
	against := flags.String("against", "", "another build of the connector, measured beside this one")
	out := flags.String("out", "", "append a line per pass, in the format of Go's benchmarks")
	codecs := flags.Bool("codecs", false, "the codecs of Kafka's batches instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := makeBed(ctx, *rows)
	if err != nil {
		return err
	}
	defer b.close()
	m, err := newMeter(b, *rounds, *warmUps, *out)
	if err != nil {
		return err
	}
	defer m.close()
	if *codecs {
		return m.codecs(ctx, workload{rows: *rows, perTx: *perTx})
	}
	all := append(contenders(b), rivals(*against)...)
	if *debezium {
		all = append(all, debeziums(*debeziumRounds)...)
	}
	if err := m.measure(ctx, perTxKey(*perTx), workload{rows: *rows, perTx: *perTx}, pick(all, *only)); err != nil {
		return err
	}
	if *single && *perTx != 1 {
		l := workload{rows: *rows / 2, perTx: 1}
		if err := m.measure(ctx, onePerTx, l, pick(append(contenders(b), rivals(*against)...), *only)); err != nil {
			return err
		}
	}
	reportAll(os.Stdout, m.all)
	return nil
}

func reportAll(w io.Writer, all []*series) {
	for _, load := range loads(all) {
		fmt.Fprintf(w, "%s:\n\n", loadName(load))
		reportThroughput(w, all, load)
		fmt.Fprintln(w)
	}
	reportGoals(w, all)
}

// loadName is how tables call a load.
func loadName(key string) string {
	switch key {
	case tenPerTx:
		return "10 rows per transaction"
	case onePerTx:
		return "1 row per transaction"
	default:
		return key
	}
}

func perTxKey(perTx int) string { return fmt.Sprintf("%d-per-tx", perTx) }

// meter lets contenders take turns on a bed and keeps what they took.
type meter struct {
	bed     *bed
	rounds  int
	warmUps int // passes that are still to come before one counts
	out     *output
	all     []*series
}

// passLimit is how long a pass may take; a contender that takes longer has its row without figures.
const passLimit = 10 * time.Minute

func newMeter(b *bed, rounds, warmUps int, path string) (*meter, error) {
	m := &meter{bed: b, rounds: rounds, warmUps: warmUps}
	var err error
	if path != "" {
		m.out, err = openOutput(path, b)
	}
	return m, err
}

func (m *meter) close() {
	if m.out != nil {
		_ = m.out.file.Close() // each line was written, and checked, when it came
	}
}

// measure lets each contender read a new load, in rounds.
func (m *meter) measure(ctx context.Context, key string, l workload, all []contender) error {
	var slots []string
	for i := range all {
		for round := range m.rounds {
			slots = append(slots, slotName(i, round))
		}
	}
	for n := m.warmUps; n > 0; n-- {
		slots = append(slots, warmUpSlot(n))
	}
	took, err := m.bed.refill(ctx, l, slots)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d rows, loaded in %s: %s of WAL\n", loadName(key), l.rows, took.Round(time.Millisecond), m.bed.wal)
	of := make([]*series, len(all))
	for i := range all {
		of[i] = &series{load: key, key: all[i].key, name: all[i].title(), note: all[i].missing, rows: l.rows}
	}
	m.all = append(m.all, of...)
	if err := m.warmUp(ctx, all); err != nil {
		return err
	}
	for round := range m.rounds {
		for _, i := range turns(len(all), round) {
			if of[i].note != "" || all[i].rounds > 0 && round >= all[i].rounds {
				continue
			}
			prefix := fmt.Sprintf("%s-%s-%d", all[i].key, key, round)
			settle() // what the pass before has written is not written back during this one
			f, err := m.pass(ctx, all[i], turn{bed: m.bed, slot: slotName(i, round), prefix: prefix})
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				of[i].note = fmt.Sprintf("not done after %s", passLimit)
				fmt.Printf("round %d  %-40s %s\n", round+1, of[i].name, of[i].note)
				continue
			}
			if err != nil {
				return fmt.Errorf("%s, %s, round %d: %w", loadName(key), of[i].name, round+1, err)
			}
			of[i].passes = append(of[i].passes, f)
			fmt.Printf("round %d  %-40s %8.1f k rows/s  client %6.2f s/M  walsender %6.2f s/M  %5.0f MB\n", round+1,
				of[i].name, f.Rate/1000, f.Client, f.Walsender, f.Peak)
			if err := m.out.write(of[i], f); err != nil {
				return err
			}
		}
	}
	fmt.Println()
	return nil
}

// turns is the order of n contenders in a round. It turns around, so that none always comes after the same other.
func turns(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// warmUp publishes the first load some times before a pass counts, with transactions. A broker that has just started
// takes records at half speed, and its compiler takes a part of two cores for some tens of seconds more. For
// transactions it has more to compile than for records alone.
func (m *meter) warmUp(ctx context.Context, all []contender) error {
	publishes := func(c contender) bool { return c.publishes && c.missing == "" }
	if missingBinary() != "" || !slices.ContainsFunc(all, publishes) {
		m.warmUps = 0
	}
	for ; m.warmUps > 0; m.warmUps-- {
		c := contender{publishes: true, pass: passExactlyOnce}
		name := warmUpSlot(m.warmUps)
		if _, err := m.pass(ctx, c, turn{bed: m.bed, slot: name, prefix: name}); err != nil {
			return err
		}
	}
	return nil
}

func warmUpSlot(n int) string { return fmt.Sprintf("bench_warm_up_%d", n) }

func slotName(contender, round int) string { return fmt.Sprintf("bench_%d_%d", contender, round) }

func pick(all []contender, only string) []contender {
	if only == "" {
		return all
	}
	var some []contender
	for _, c := range all {
		for _, part := range strings.Split(only, ",") {
			if strings.Contains(c.title(), part) || c.key == part {
				some = append(some, c)
				break
			}
		}
	}
	return some
}

// pass lets a contender publish to fresh topics, and compares what is there afterwards with the table.
func (m *meter) pass(ctx context.Context, c contender, t turn) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	if !c.publishes {
		r, err := c.pass(ctx, t)
		return r.figures(m.bed.rows), err
	}
	topics := t.topics()
	if err := m.bed.createTopics(ctx, topics); err != nil {
		return figures{}, err
	}
	r, err := c.pass(ctx, t)
	if err != nil {
		return figures{}, err
	}
	if err := m.bed.verify(ctx, topics); err != nil {
		return figures{}, err
	}
	r.Wire = m.bed.logSize(topics)
	return r.figures(m.bed.rows), m.bed.kafka.Delete(ctx, topics...)
}
