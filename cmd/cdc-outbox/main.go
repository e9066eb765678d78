// Command cdc-outbox relays committed rows of an outbox table in Postgres to Kafka.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// main is a door: signals come in, an exit code goes out. Nothing else calls os.Exit.
func main() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(a.execute(interruptible(), os.Args[1:]))
}

// interruptible returns a context that ends with the first SIGTERM or SIGINT, which asks for a graceful stop. The
// second one ends the process at once: what was in flight is then repeated by the next start.
func interruptible() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx
}
