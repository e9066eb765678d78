package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

// openGaps are the open gaps as of the last check that saw the table.
type openGaps struct {
	mu    sync.Mutex
	open  []gap.Gap
	said  map[int64]bool // the gap was logged
	blind bool           // that gaps are not kept was logged
}

// take keeps what a check has found, and logs each gap once, by its own line: at a start that is each open one.
func (g *openGaps) take(r *setup.Running, log *zap.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.Looked {
		if r.Why != nil && !errors.Is(r.Why, context.Canceled) && !g.blind {
			g.blind = true
			log.Warn("gaps in the stream would not be noticed: the table that keeps them cannot be used",
				telemetry.ErrorFields(r.Why)...)
		}
		return
	}
	g.blind = false
	if g.said == nil {
		g.said = map[int64]bool{}
	}
	settled := len(g.open) > 0 && len(r.Gaps) == 0
	g.open = r.Gaps
	for i := range r.Gaps {
		one := r.Gaps[i : i+1]
		if g.said[one[0].ID] {
			continue
		}
		g.said[one[0].ID] = true
		log.Warn("events may be missing from Kafka, until the gap is settled",
			append(telemetry.RemedyFields(gap.Remedy(one)), zap.Int64(logkey.Gap, one[0].ID),
				zap.String(logkey.Sentence, one[0].Sentence()))...)
	}
	if settled {
		log.Info("every gap in the stream is settled")
	}
}

// finding is the alert's.
func (g *openGaps) finding() alert.Finding {
	open := g.list()
	if len(open) == 0 {
		return diagnose.Gaps("", time.Time{}, fault.Remedy{})
	}
	return diagnose.Gaps(gap.Summary(open), open[0].FoundAt, gap.Remedy(open))
}

func (g *openGaps) list() []gap.Gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// lookBefore looks for gaps before anything is streamed: a checkpoint that has lost its row is written with the stream.
func (s *walService) lookBefore(ctx context.Context) {
	dsn, err := wiring.DSN(s.Config)
	var r setup.Running
	if err == nil {
		r, err = setup.LookBefore(ctx, dsn, s.admin, s.engine.Load().publishes)
	}
	if err != nil {
		r.Why = err
	}
	if ctx.Err() == nil {
		s.gaps.take(&r, s.Logger)
	}
}

// addGaps adds to a status the open gaps, as the server has them. If it cannot be asked, they stay as the connector has
// reported them.
func addGaps(ctx context.Context, c *config.Loaded, st *Status) {
	desk := wiring.Gaps(c)
	if desk.Table.Name.Name == "" {
		return
	}
	if open, err := desk.Open(ctx); err == nil {
		st.Gaps = open
	}
}

// OpenGaps lists the open gaps of the slot, the oldest first.
func OpenGaps(ctx context.Context, c *config.Loaded) ([]gap.Gap, error) {
	return wiring.Gaps(c).Open(ctx)
}

// RowsHaveTimes reports whether rows can be chosen by time without passing over one: every table has the column of the
// timestamp, and every row a value there.
func RowsHaveTimes(ctx context.Context, db wiring.Target) (bool, error) {
	for _, table := range db.Admin.Tables {
		rows, err := outboxtable.Open(ctx, db.DSN, db.Admin, table, outboxtable.Filter{})
		if err != nil {
			return false, err
		}
		untimed, err := rows.Untimed(ctx)
		timed := rows.Timed() && untimed == 0
		rows.Close()
		if err != nil || !timed {
			return false, err
		}
	}
	return true, nil
}

// SettleGaps settles gaps by a repair that has looked at all of their rows.
func SettleGaps(ctx context.Context, c *config.Loaded, gaps []gap.Gap, missing, published int64) error {
	return wiring.Gaps(c).Settle(ctx, gaps, missing, published)
}

// DismissGap settles a gap by decision.
func DismissGap(ctx context.Context, c *config.Loaded, id int64, reason string) error {
	return wiring.Gaps(c).Dismiss(ctx, id, relay.Storable(reason))
}
