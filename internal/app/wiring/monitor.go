package wiring

import (
	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Monitor takes the slot monitor's settings from the configuration.
func Monitor(c *config.Loaded) slotmonitor.Config {
	th := slotmonitor.DefaultThresholds
	th.WarnRetained, th.CriticalRetained = int64(c.Monitor.WarnRetained), int64(c.Monitor.CriticalRetained)
	return slotmonitor.Config{
		DSN: routing.DSN(c), Interval: c.Monitor.Interval, Only: []string{c.Postgres.Slot}, Thresholds: th,
		Repeat: c.Monitor.RepeatInterval, WALVolume: int64(c.Monitor.WALVolume),
	}
}
