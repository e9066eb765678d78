package service

import (
	"context"
	"math"
	"os"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// Run relays rows from the configured source until ctx ends and the records in flight have drained, or until it fails.
func Run(ctx context.Context, o Options) error {
	c, log := o.Config, o.Logger
	limit := limitMemory(int64(c.Window.Bytes))
	log.Info(
		"starting",
		append(sourceFields(c), zap.String(logkey.Version, o.Build.Version), zap.Int64(logkey.MemoryLimit, limit))...,
	)
	for _, w := range c.Warnings {
		log.Warn("the configuration is allowed but unwise", zap.String(logkey.Reason, w))
	}
	warnOfLogins(log)
	s, err := newRunner(ctx, newProcess(o))
	if err != nil {
		return err
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	log.Info("stopped as asked")
	return nil
}

// newRunner makes the service for the configured source.
func newRunner(ctx context.Context, p *process) (interface{ serve(context.Context) error }, error) {
	if p.Config.Source == config.SourcePolling {
		return newPollingService(ctx, p)
	}
	return newWALService(ctx, p)
}

func sourceFields(c *config.Loaded) []zap.Field {
	if c.Source == config.SourcePolling {
		return []zap.Field{zap.String(logkey.Source, c.Source)}
	}
	return []zap.Field{zap.String(logkey.Slot, c.Postgres.Slot), zap.String(logkey.Publication, c.Postgres.Publication)}
}

// limitMemory gives the garbage collector the limit that the process should stay inside, unless GOMEMLIMIT says: four
// times the window, for the records and their encoded batches and the garbage of both, and 128 MiB for everything
// else. Unless GOGC says, it also collects at less than a third of the usual growth: little garbage is made per row, so
// that costs nothing measurable, and keeps some megabytes fewer.
func limitMemory(window int64) int64 {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(30)
	}
	if os.Getenv("GOMEMLIMIT") == "" && window < math.MaxInt64/8 {
		debug.SetMemoryLimit(4*window + 128<<20)
	}
	return debug.SetMemoryLimit(-1)
}
