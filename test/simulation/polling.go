package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/walsender"
)

// ofTheLog are the kinds of step that source: polling has nothing to do with: they are about slot, checkpoint and
// stream.
var ofTheLog = []Kind{
	Foreign, SaveSlot, Terminate, LockTable, Deny, Restore, Fence, Limit, Promote, DetachStandby, BusyCoordinator,
	UnknownProducer, Unpublish, Flicker,
}

// NewPollingPlan draws a plan for source: polling from the seed.
func NewPollingPlan(seed uint64) *Plan {
	p := NewPlan(seed, Switches{Pairs: true, Stale: true})
	r := rand.New(rand.NewPCG(seed, 0x901))
	p.Polling, p.Batch, p.Delete = 1+r.IntN(3), []int{1, 3, 20, 8000}[r.IntN(4)], r.IntN(2) == 0
	p.Lag, p.Gate, p.LookEvery = 0, "", 0
	p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return slices.Contains(ofTheLog, s.Kind) })
	length := p.Steps[len(p.Steps)-1].At
	for range r.IntN(5) {
		p.Steps = append(p.Steps, Step{
			At: time.Duration(r.Int64N(int64(length) + 1)), Kind: Late, A: 1 + r.IntN(3000), B: 1 + r.IntN(5),
		})
	}
	if r.IntN(2) == 0 { // sessions end, which with the log are rarely more than one
		p.Steps = append(p.Steps, Step{At: time.Duration(r.Int64N(int64(length) + 1)), Kind: TerminateOthers})
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return p
}

// commitLate inserts rows of keys of their own: writers of one aggregate take turns, so none is late for another.
func (w *world) commitLate(s Step) {
	var rows []walsender.Row
	w.mu.Lock()
	for range s.B {
		w.serial++
		rows = append(rows, walsender.Row{
			ID: fmt.Sprintf("e%05d", w.serial), Topic: "order", Key: fmt.Sprintf("late%d", w.serial),
		})
	}
	w.mu.Unlock()
	w.later(time.Duration(s.A)*time.Millisecond, "late commit", w.postgres.Insert(rows))
}

// marked judges a row that is marked as published: S.
func (w *world) marked(row walsender.Row) {
	w.mu.Lock()
	has := w.has(row.ID)
	w.mu.Unlock()
	if !has {
		w.wrong("S", "%s is marked, and is not in Kafka", row.ID)
	}
}

// leavesLanes reports whether another process may have claimed lanes while rows of them were in flight: then records
// are repeated, perhaps after newer records of their keys (docs/polling.md).
func (w *world) leavesLanes() bool {
	p := w.plan
	if p.has(CrashInstance) || p.has(StopInstance) && !p.only(harmless) { // the next process of the unit
		return true
	}
	return p.Instances > 1 && p.has(Freeze, HoldPostgres, LoseStream, CutStream, TerminateOthers, RestartServer,
		CrashServer)
}

// polls builds a relay that polls.
func (in *instance) polls(l *life, dial dialFunc, logger *zap.Logger) (*polling.Relay, error) {
	p := in.w.plan
	cfg := polling.Config{
		DSN: dsn, Dial: dial, Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		Columns:   polling.Columns{Key: "aggregate_id", Sequence: "seq", Published: "published_at"},
		NewRouter: newRouter, Workers: p.Polling, Batch: p.Batch, WindowRecords: p.Window,
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Logger: logger,
	}
	if p.Delete {
		cfg.After = polling.Delete
	}
	producer := in.producer(l, dial, logger)
	producer.Owned = false
	cfg.Sink = kafka.Open(producer)
	return polling.New(cfg)
}
