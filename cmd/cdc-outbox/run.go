package main

import (
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/build"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the connector",
		Long: `run relays outbox rows to Kafka until it is asked to stop. SIGTERM or SIGINT stop it gracefully: it
reads to the end of the open transaction, waits for Kafka's acknowledgements and confirms them to the slot. A second
signal ends it at once. SIGHUP is ignored, with a line in the log: a changed configuration takes a restart.

While Postgres or Kafka are away it waits for them, not ready. Exit codes: 0 stopped as asked, 1 failed, 2 the
configuration or the command line is wrong, 3 an operator has to fix something, such as a lost slot.

With --sink stdout it prints the events that are committed from now on, a line of JSON for each record, and needs no
Kafka. It reads through a temporary slot: the connector's slot does not move, and a connector that runs is not
disturbed.`,
		Example: `  cdc-outbox run --config cdc-outbox.yaml
  CDC_OUTBOX_POSTGRES_DSN=@/run/secrets/dsn cdc-outbox run --kafka-brokers kafka-1:9092,kafka-2:9092
  cdc-outbox run --sink stdout | jq .`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if c.Sink == config.SinkStdout {
				return a.runToStdout(cmd.Context(), c)
			}
			log, err := telemetry.NewLogger(a.stderr, c.Log.Level, a.logFormat(c))
			if err != nil {
				return err
			}
			a.stay(log)
			err = service.Run(cmd.Context(), a.options(c, log))
			if err != nil {
				log.Error("stopped by an error", telemetry.ErrorFields(err)...)
				if a.logFormat(c) == telemetry.FormatJSON {
					return reported{err}
				}
			}
			return err
		},
	}
	return cmd
}

// logFormat is the configured one; auto depends on whether stderr is a terminal.
func (a *app) logFormat(c *config.Loaded) string {
	switch {
	case c.Log.Format != telemetry.FormatAuto:
		return c.Log.Format
	case terminal(a.stderr):
		return telemetry.FormatConsole
	}
	return telemetry.FormatJSON
}

// stay makes SIGHUP harmless for a process that stays. To daemons it means "reload", which a service manager or a log
// rotation sends as a matter of course; a relay that took it for a stop would be down from then on.
func (a *app) stay(log *zap.Logger) {
	ignore := func() { log.Warn("SIGHUP ignored: nothing is reloaded; restart to apply a changed configuration") }
	a.hungUp.Store(&ignore)
}

// options are a staying process's configuration, build and logger.
func (a *app) options(c *config.Loaded, log *zap.Logger) service.Options {
	return service.Options{Config: c, Build: build.Of(version), Logger: log}
}

// reported is an error whose line is in the log already: a collector of JSON must not find plain text between.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }
