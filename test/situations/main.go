// Command situations records what Prometheus sees of cdc-outbox in real situations, healthy ones and faults, for the
// test of the alert rules in deploy/testdata/rules. Each situation is the real binary, a Postgres of its own and an
// in-process stand-in for Kafka; situations.go says what happens. All are recorded at the same time, in 18 minutes.
//
//	go run ./test/situations -out deploy/testdata/rules/situations
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// every is the time between two scrapes.
const every = 10 * time.Second

func main() {
	rules := flag.String("rules", "deploy/prometheus/rules.yml", "the rules, whose metrics are recorded")
	out := flag.String("out", "", "directory for the recordings")
	only := flag.String("only", "", "names of situations, separated by commas; empty: all")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "situations: -out names a directory, and there are no other arguments")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := record(ctx, *rules, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "situations:", err)
		os.Exit(1)
	}
}

func record(ctx context.Context, rules, out, only string) (err error) {
	names, err := metricsOf(rules)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.Clean()) }()
	if _, err := process.Build(); err != nil { // once, before the clocks run
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range situations {
		if only != "" && !slices.Contains(strings.Split(only, ","), s.name) {
			continue
		}
		g.Go(func() error {
			rec, err := s.record(ctx, names)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Println("recorded", s.name)
			return os.WriteFile(filepath.Join(out, s.name+".series"), []byte(s.header(rec.first)+rec.String()), 0o644)
		})
	}
	return g.Wait()
}
