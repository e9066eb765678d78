package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/reader"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
)

// healing relays, and where the slot was lost meanwhile, heals it and goes on. A heal that is refused, and a slot that
// is lost again before the rows of its gap were published, end it.
func (s *walService) healing(ctx context.Context) error {
	for {
		err := s.relay(ctx)
		if s.Config.OnGap != config.OnGapHeal || fault.KindOf(err) != fault.Operator || ctx.Err() != nil ||
			s.refused != nil {
			return err
		}
		needs, nerr := s.needsHeal(ctx)
		if nerr != nil || !needs {
			return err
		}
		s.Logger.Warn("the slot was lost while it was read", telemetry.ErrorFields(err)...)
	}
}

func (s *walService) needsHeal(ctx context.Context) (bool, error) {
	dsn, err := wiring.DSN(s.Config)
	if err != nil {
		return false, err
	}
	return setup.NeedsHeal(ctx, dsn, s.admin)
}

// heal makes a lost slot again, and lists what is to be published before it is read. A refusal lasts until an operator
// has replaced the slot: to compare again would find the same.
func (s *walService) heal(ctx context.Context, dsn string) error {
	if s.Config.OnGap != config.OnGapHeal {
		return nil
	}
	if s.refused != nil {
		needs, err := setup.NeedsHeal(ctx, dsn, s.admin)
		if err != nil || needs {
			return errors.Join(err, s.refused)
		}
		s.refused = nil
	}
	admin := s.admin
	var err error
	if admin.Outside, err = NewOutside(s.Config); err != nil {
		return err
	}
	err = setup.HealSlot(ctx, dsn, admin, topics{s})
	if fault.KindOf(err) == fault.Operator && ctx.Err() == nil {
		s.refused = err
	}
	return err
}

// topics are the configured topics.
type topics struct{ *walService }

// Absent compares the rows of the open gaps with the topics.
func (s topics) Absent(ctx context.Context, open []gap.Gap) (setup.Absent, error) {
	var a setup.Absent
	from, unknown := gap.Earliest(open)
	if unknown != nil {
		return a, &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("gap %d", unknown.ID),
			Err: errors.New("it is not known when it began, so every row may be one that was deleted meanwhile"),
		}
	}
	for i := range open {
		if !open[i].Lasts() {
			a.Gaps = append(a.Gaps, open[i].ID)
		}
	}
	c := s.Config
	db, err := wiring.NewTarget(c)
	if err != nil {
		return a, err
	}
	producer, err := wiring.Kafka(c)
	if err != nil {
		return a, err
	}
	route, err := routing.NewTo(ctx, c, "")
	if err != nil {
		return a, err
	}
	shown := &healProgress{log: s.Logger, say: func(what string) {
		s.startup.Store(&waiting{why: "the slot was lost, and the rows of its gap are compared: " + what})
	}}
	a.IDs, err = replay.FindAbsent(ctx, replay.RepairOptions{
		Since: from.Add(-gap.Before), DSN: db.DSN, Admin: db.Admin, Reader: reader.Open(producer.Cluster),
		Router: route, Progress: shown, Letters: c.Router.DeadLetterTopic, HeaderID: wiring.IDOf(c),
		Skipped: wiring.Decisions(c).Skipped,
	}, from)
	return a, err
}

// Fence begins a tenure of the slot at the broker, by a producer that writes nothing: what an earlier instance has in
// flight is refused from then on, and an open transaction of it aborted.
func (s topics) Fence(ctx context.Context, systemID string) error {
	s.startup.Store(&waiting{why: "the slot was lost; before it is made again, Kafka has to fence earlier instances"})
	registry := prometheus.NewRegistry()
	b, err := s.broker(telemetry.NewMetrics(registry), registry)
	if err != nil {
		return err
	}
	producer, err := b.open(sink.Callbacks{Acked: func(sink.Delivery) {}})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	g.Go(func() error { return producer.Run(ctx) })
	g.Go(func() error {
		defer stop()
		_, _, err := producer.Begin(ctx, sink.SlotOwner(systemID, s.Config.Postgres.Slot))
		if errors.Is(err, sink.ErrNotAllowed) {
			return nil // nor was an earlier instance, so there is nothing to fence it by
		}
		return err
	})
	return g.Wait()
}

// sayComparing is how often the log has the progress.
const sayComparing = 10 * time.Second

// healProgress shows a comparison in the status, and in the log.
type healProgress struct {
	say   func(what string)
	log   *zap.Logger
	meter progress.Meter
	said  time.Time
}

func (p *healProgress) Say(line string) {
	p.log.Info("comparing the rows of the gap with the topics", zap.String(logkey.Sentence, line))
}

func (p *healProgress) Step(step progress.Step) {
	now := time.Now()
	line := p.meter.Line(step, now)
	p.say(line)
	if now.Sub(p.said) >= sayComparing {
		p.said = now
		p.Say(line)
	}
}

// Wait shows the wait until stop returns.
func (p *healProgress) Wait(wait progress.Wait) (stop func()) {
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if what, _ := wait(); what != "" {
				p.say(what)
			}
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	})
	return func() { close(over); shown.Wait() }
}
