package slotmonitor

import (
	"context"
	"time"
)

// Look asks the server once, over a connection that it closes again. Figures that take more than one sample, growth and
// what follows from it, are not known. Of cfg it reads DSN, Only, Thresholds and WALVolume.
func Look(ctx context.Context, cfg Config) ([]Slot, error) {
	c := &connection{dsn: cfg.DSN, only: cfg.Only, walFiles: cfg.WALVolume > 0}
	defer c.close()
	snap, err := c.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	hist := newHistory(time.Minute)
	hist.volume = cfg.WALVolume
	return hist.add(snap, cfg.Thresholds)
}
