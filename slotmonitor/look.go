package slotmonitor

import (
	"context"
	"time"
)

// Look asks the server once, over a connection that it closes again. Figures that take more than one look, growth and
// what follows from it, are not known. Of cfg it reads DSN, Only and Thresholds.
func Look(ctx context.Context, cfg Config) ([]Slot, error) {
	c := &connection{dsn: cfg.DSN, only: cfg.Only}
	defer c.close()
	snap, err := c.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return newHistory(time.Minute).add(snap, cfg.Thresholds)
}
