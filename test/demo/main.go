// Command demo shows cdc-outbox at work on a machine with nothing but Go: a real Postgres (installed, or fetched once),
// an in-process stand-in for Kafka, the real cdc-outbox binary between them, a small shop that writes orders and their
// events in its own transactions and rolls some of them back, the billing service of examples/ that handles them, and
// an observer that checks what arrives. Meanwhile the connector is killed, and sends again what was not confirmed.
//
// It exits with 0 only when every committed event was published in order and handled once, and nothing that was
// rolled back was. Nothing of it is left running, however it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the command line's.
type options struct {
	duration time.Duration // of writing; 0: until a signal
	rate     int           // transactions per second over all workers; 0: as fast as they can
	workers  int
	postgres string // version, as testkit's postgres.Find takes it
	binary   string // an existing cdc-outbox; empty: build it
	crash    bool   // kill the connector while the shop writes
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "duration", 0, "how long the shop writes; 0: until Ctrl-C")
	flag.IntVar(&o.rate, "rate", 400, "transactions per second; 0: as many as the machine can do")
	flag.IntVar(&o.workers, "workers", 4, "concurrent writers")
	flag.StringVar(&o.postgres, "postgres", "",
		"Postgres version, such as 16; empty: the newest installed one, or one that is fetched")
	flag.StringVar(&o.binary, "binary", "", "cdc-outbox binary to run; empty: build it from this source tree")
	flag.BoolVar(&o.crash, "crash", true, "kill -9 the connector when three quarters of the duration are over")
	flag.Parse()
	if flag.NArg() > 0 || o.workers < 1 || o.rate < 0 || o.duration < 0 {
		fmt.Fprintln(os.Stderr, "demo: -workers must be at least 1, -rate and -duration not negative, and there are "+
			"no other arguments")
		os.Exit(2)
	}
	os.Exit(run(o))
}

// run plays the demo and returns the exit code. The first signal ends the writing, the second everything.
func run(o options) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		stopWriting()
		<-signals
		cancel()
	}()
	go orphaned(ctx, stopWriting)

	r, err := play(ctx, stop, o, newView(os.Stdout, o.duration))
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted before the counts could be compared")
		}
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		return 1
	}
	fmt.Print("\n", r.table())
	differences := r.differences()
	if len(differences) > 0 {
		fmt.Printf("\nNOT as promised:\n  %s\n", strings.Join(differences, "\n  "))
		return 1
	}
	if r.crashes > 0 {
		fmt.Println("\nAs promised: every committed event was handled once and in order, although the connector was " +
			"killed, and nothing that was rolled back arrived.")
		return 0
	}
	fmt.Println("\nAs promised: every committed event arrived once and in order, and nothing that was rolled back did.")
	return 0
}

// orphaned ends the writing when `go run`, which started us, was killed: no signal would stop the demo otherwise, as
// `go run` does not pass signals on.
func orphaned(ctx context.Context, stopWriting func()) {
	parent := os.Getppid()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || strings.TrimSpace(string(name)) != "go" {
		return
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if os.Getppid() != parent {
				stopWriting()
				return
			}
		}
	}
}
