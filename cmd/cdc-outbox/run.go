package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/build"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the connector",
		Long: `run relays outbox rows to Kafka until it is told to stop. SIGTERM or SIGINT stop it gracefully: it reads to the end of
the open transaction, waits for Kafka's acknowledgements and confirms them to the slot. A second signal ends it at once.

While Postgres or Kafka are away it waits for them, not ready. Exit codes: 0 stopped as asked, 1 failed, 2 the
configuration or the command line is wrong, 3 somebody has to mend something, such as a lost slot.`,
		Example: `  cdc-outbox run --config cdc-outbox.yaml
  CDC_OUTBOX_POSTGRES_DSN=@/run/secrets/dsn cdc-outbox run --kafka-brokers kafka-1:9092,kafka-2:9092`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(a.stderr, c.Log.Level, c.Log.Format)
			if err != nil {
				return err
			}
			err = a.run(cmd.Context(), c, log)
			if err != nil {
				log.Error("Stopped by an error", telemetry.ErrorFields(err)...)
				if c.Log.Format == telemetry.FormatJSON {
					return reported{err}
				}
			}
			return err
		},
	}
}

// reported is an error whose line is in the log already: whoever collects JSON must not find plain text between.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

func (a *app) run(ctx context.Context, c *config.Loaded, log *zap.Logger) error {
	limit := limitMemory(int64(c.Window.Bytes))
	reg := newRegistry()
	log.Info("Starting", append(sourceFields(c), zap.String(telemetry.KeyVersion, build.Of(version).Version), zap.Int64("memory_limit", limit))...)
	for _, w := range c.Warnings {
		log.Warn("The configuration is allowed but unwise", zap.String(telemetry.KeyReason, w))
	}
	s, err := newRunner(ctx, c, reg, log)
	if err != nil {
		return err
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	log.Info("Stopped as asked")
	return nil
}

// newRunner makes the service for where the rows come from.
func newRunner(ctx context.Context, c *config.Loaded, reg *prometheus.Registry, log *zap.Logger) (interface{ run(context.Context) error }, error) {
	if c.Source == config.SourcePolling {
		return newPollingService(ctx, c, reg, log)
	}
	return newService(ctx, c, reg, log)
}

func sourceFields(c *config.Loaded) []zap.Field {
	if c.Source == config.SourcePolling {
		return []zap.Field{zap.String("source", c.Source)}
	}
	return []zap.Field{zap.String(telemetry.KeySlot, c.Postgres.Slot), zap.String(telemetry.KeyPublication, c.Postgres.Publication)}
}

// limitMemory tells the garbage collector what the process should stay inside, unless GOMEMLIMIT says: four times the
// window, for the records and their encoded batches and what is garbage of both, and 128 MiB for everything else.
func limitMemory(window int64) int64 {
	if os.Getenv("GOMEMLIMIT") == "" && window < math.MaxInt64/8 {
		debug.SetMemoryLimit(4*window + 128<<20)
	}
	return debug.SetMemoryLimit(-1)
}
