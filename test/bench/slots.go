package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// slots cuts the outbox by row filters into 1, 2 and 4 publications, each with a slot and a reader of its own, and
// measures what the walsenders cost. Each of them decodes the whole log and sends its share. They are read at the same
// time for the rate, and one after the other for the CPU: two threads of one core count more of it than they use.
func slots(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("slots", flag.ContinueOnError)
	rows := flags.Int("rows", 400_000, "rows to load")
	rounds := flags.Int("rounds", 3, "passes of each number of slots")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := makeBed(ctx, *rows)
	if err != nil {
		return err
	}
	defer b.close()
	all := []int{0, 1, 2, 4}
	var names []string
	for _, n := range all {
		shares := shares(n)
		if err := b.createShares(ctx, shares); err != nil {
			return err
		}
		for _, s := range shares {
			for round := range 2 * *rounds {
				names = append(names, s.slot(round))
			}
		}
	}
	l := workload{rows: *rows, perTx: 10}
	if _, err := b.refill(ctx, l, names); err != nil {
		return err
	}
	fmt.Printf("%d rows, 10 per transaction; PostgreSQL %s, %d cores\n\n", *rows, b.postgres.Version(),
		runtime.NumCPU())
	fmt.Println("| slots | rows/s together | walsender CPU s per million rows of the log | in each |")
	fmt.Println("|---|---|---|---|")
	tables := map[int]*series{}
	for round := range *rounds {
		for _, n := range all {
			r, err := b.readShares(ctx, shares(n), 2*round, true)
			if err != nil {
				return fmt.Errorf("%d slots: %w", n, err)
			}
			single, err := b.readShares(ctx, shares(n), 2*round+1, false)
			if err != nil {
				return fmt.Errorf("%d slots, one after the other: %w", n, err)
			}
			r.Walsender = single.Walsender
			if tables[n] == nil {
				tables[n] = &series{}
			}
			tables[n].passes = append(tables[n].passes, r)
		}
	}
	for _, n := range all {
		name := fmt.Sprintf("%d with row filters", n)
		if n < 2 {
			name = map[int]string{0: "1 without a filter", 1: "1 with a filter that takes all"}[n]
		}
		cpu := tables[n].median(walsender)
		fmt.Printf("| %s | %.0f k | %.2f | %.2f |\n", name, tables[n].median(rate)/1000, cpu, cpu/float64(max(n, 1)))
	}
	return nil
}

// share is the part of the keys that one publication lets through.
type share struct{ of, n int }

// shares are all parts where the keys are cut into n; 0 is the whole without a filter.
func shares(n int) []share {
	all := make([]share, max(n, 1))
	for i := range all {
		all[i] = share{of: n, n: i}
	}
	return all
}

func (s share) publication() string {
	if s.of == 0 {
		return publication
	}
	return fmt.Sprintf("share_%d_of_%d", s.n, s.of)
}

func (s share) slot(round int) string { return fmt.Sprintf("share_%d_of_%d_%d", s.n, s.of, round) }

// filter is by key, so that the rows of a key keep their order. A mask, for % of a negative hash is negative.
func (s share) filter() string { return fmt.Sprintf("(hashtext(aggregate_id) & %d) = %d", s.of-1, s.n) }

func (b *bed) createShares(ctx context.Context, all []share) error {
	for _, s := range all {
		if s.of == 0 {
			continue
		}
		sql := "CREATE PUBLICATION " + s.publication() + " FOR TABLE outbox WHERE (" + s.filter() +
			") WITH (publish = 'insert')"
		if _, err := b.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// readShares lets a reader of each share read, together or one after the other.
func (b *bed) readShares(ctx context.Context, all []share, round int, together bool) (figures, error) {
	self, err := os.Executable()
	if err != nil {
		return figures{}, err
	}
	var mu sync.Mutex
	var server time.Duration
	var failed []error
	var readers sync.WaitGroup
	begun := time.Now()
	for _, s := range all {
		var rows int
		where := "true"
		if s.of > 0 {
			where = s.filter()
		}
		if err := b.conn.QueryRow(ctx, "SELECT count(*) FROM outbox WHERE "+where).Scan(&rows); err != nil {
			return figures{}, err
		}
		cmd := exec.Command(self, referenceCommand, "-dsn", b.dsn, "-slot", s.slot(round), "-publication",
			s.publication(), "-rows", fmt.Sprint(rows))
		t := turn{bed: b, slot: s.slot(round)}
		readers.Go(func() {
			r, err := t.runToEnd(ctx, cmd)
			mu.Lock()
			defer mu.Unlock()
			server += r.Server
			failed = append(failed, err)
		})
		if !together {
			readers.Wait()
		}
	}
	readers.Wait()
	return figures{
		Rate:      float64(b.rows) / time.Since(begun).Seconds(),
		Walsender: server.Seconds() / float64(b.rows) * 1e6,
	}, errors.Join(failed...)
}
