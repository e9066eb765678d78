// Command bench measures cdc-outbox beside bare readers, pg_recvlogical and Debezium, over the same write-ahead log on
// the same machine. It starts its own Postgres and Kafka. `make bench` and `make bench-latency` run it; the figures in
// README.md come from it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  bench throughput [-rows N] [-per-tx N] [-rounds N] [-debezium] [-debezium-rounds N] [-only NAMES]
    [-against BINARY] [-codecs] [-warm-up N] [-out FILE]
  bench floor [-rows N] [-rounds N]
  bench table FILE [PAGE.md ...]
  bench topics [-rows N] [-topics N] [-brokers N] [-rounds N] [-warm-up N] [-delivery at_least_once|exactly_once]
    [-against BINARY]
  bench consumer [-events N] [-batch N] [-rounds N] [-only NAMES]
  bench latency [-rate N] [-for DURATION] [-delivery at_least_once|exactly_once]`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "throughput":
		return throughput(ctx, args[1:])
	case "latency":
		return latency(ctx, args[1:])
	case "topics":
		return manyTopics(ctx, args[1:])
	case readerCommand: // the readers are processes of their own, so that their CPU is measured apart
		return bareReader(ctx, args[1:])
	case "consumer":
		return consumers(ctx, args[1:])
	case "floor":
		return floor(ctx, args[1:])
	case "table":
		return table(args[1:])
	case referenceCommand:
		return reference(ctx, args[1:])
	default:
		return errors.New(usage)
	}
}
