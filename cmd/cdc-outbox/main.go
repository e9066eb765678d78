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
	crashBySignal()
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(a.execute(a.interruptible(), os.Args[1:]))
}

// interruptible returns a context that ends with the first SIGTERM or SIGINT, which asks for a graceful stop. The
// second one ends the process at once: the records in flight are then repeated by the next start. SIGHUP counts as such
// a signal until the command stays. A process that was started with SIGHUP ignored (nohup) goes on ignoring it.
func (a *app) interruptible() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for {
			sig := <-signals
			if hungUp := a.hungUp.Load(); sig == syscall.SIGHUP && hungUp != nil {
				(*hungUp)()
				continue
			}
			if ctx.Err() != nil {
				os.Exit(1)
			}
			cancel()
		}
	}()
	return ctx
}
