package slotmonitor

import (
	"context"
	"time"
)

// Between is the time between the samples of LookTwice.
const Between = 2 * time.Second

// Look asks the server once, over a connection that it closes again. Figures that take more than one sample, growth and
// what follows from it, are not known. Of cfg it reads DSN, Only, Thresholds and WALVolume.
func Look(ctx context.Context, cfg Config) ([]Slot, error) { return sampleSlots(ctx, cfg, 0) }

// LookTwice is Look with a second sample after Between, so that it knows growth and the time left. A slot that no
// session reads is a warning in it, however short the time is for which that is known.
func LookTwice(ctx context.Context, cfg Config) ([]Slot, error) {
	if cfg.Thresholds.Inactive > 0 {
		cfg.Thresholds.Inactive = time.Nanosecond
	}
	return sampleSlots(ctx, cfg, Between)
}

func sampleSlots(ctx context.Context, cfg Config, between time.Duration) ([]Slot, error) {
	c := &connection{dsn: cfg.DSN, only: cfg.Only, walFiles: cfg.WALVolume > 0}
	defer c.close()
	hist := newHistory(between / 2)
	hist.volume = cfg.WALVolume
	snap, err := c.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	slots, err := hist.add(snap, cfg.Thresholds)
	if err != nil || between == 0 || len(slots) == 0 {
		return slots, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(between):
	}
	if snap, err = c.snapshot(ctx); err != nil {
		return nil, err
	}
	return hist.add(snap, cfg.Thresholds)
}
