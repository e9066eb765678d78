package service

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// slotGaps are the open gaps of all slots, as of the last answer.
type slotGaps struct {
	mu    sync.Mutex
	open  map[string][]gap.Gap
	blind string // why they are not known; empty: they are
	at    time.Time
}

// gapsEvery is how many monitor.interval pass until the table of gaps is read again, over a connection of its own.
const gapsEvery = 6

// look reads the table if that was not done lately. It logs once that the gaps are not known.
func (g *slotGaps) look(ctx context.Context, c *config.Loaded, only []string, log *zap.Logger) {
	if time.Since(g.at) < gapsEvery*c.Monitor.Interval {
		return
	}
	g.at = time.Now()
	open, err := gapsOfSlots(ctx, c, only)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.open, g.blind = open, ""
		return
	}
	was := g.blind
	if g.blind, _ = fault.Split(err); g.blind != was {
		log.Warn("gaps in the streams are not known", telemetry.ErrorFields(err)...)
	}
}

// gapsOfSlots lists the open gaps in the database of postgres.dsn, by slot. Without only, of every slot.
func gapsOfSlots(ctx context.Context, c *config.Loaded, only []string) (map[string][]gap.Gap, error) {
	open, err := wiring.Gaps(c).OfSlots(ctx)
	if len(only) > 0 {
		maps.DeleteFunc(open, func(slot string, _ []gap.Gap) bool { return !slices.Contains(only, slot) })
	}
	return open, err
}

func (g *slotGaps) list() (open map[string][]gap.Gap, blind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.blind
}

// findings are one about each slot, and one about all slots that do not exist any more.
func (g *slotGaps) findings(slots []slotmonitor.Slot) []alert.Finding {
	open, _ := g.list()
	rest := maps.Clone(open)
	var all []alert.Finding
	for i := range slots {
		name := slots[i].Name
		all = append(all, gapFinding(name, rest[name]))
		delete(rest, name)
	}
	var gone []gap.Gap
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		gone = append(gone, rest[name]...)
	}
	return append(all, gapFinding("", gone))
}

func gapFinding(slot string, open []gap.Gap) alert.Finding {
	f := alert.Finding{Alert: diagnose.EventsMayBeMissing}
	if len(open) > 0 {
		f = diagnose.Gaps(gap.Summary(open), open[0].FoundAt, gap.Remedy(open))
	}
	f.Subject = slot
	return f
}
