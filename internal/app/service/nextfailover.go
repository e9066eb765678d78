package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

const (
	// failoverEvery is how many monitor.interval pass until the standbys are asked again, over new connections.
	failoverEvery = 12
	// How many answers in a row make an alert: a standby may be restarted, or catch up.
	badAnswers, noAnswers = 2, 5
)

// nextFailover is what a failover to each standby would do, as of the last survey.
type nextFailover struct {
	mu        sync.Mutex
	forecasts []standbys.Forecast
	bad       map[string]badFailover
}

// badFailover is a failover that would not go well.
type badFailover struct {
	since time.Time
	times int // surveys in a row that said so
	told  bool
}

// lasts reports whether it is worth an alert.
func (b badFailover) lasts(f *standbys.Forecast) bool {
	if f.Outcome == standbys.Unknown {
		return b.times >= noAnswers
	}
	return b.times >= badAnswers
}

// watchFailover asks the standbys on a timer, where a failover is prepared for. What it knows ends with it, and with a
// survey that fails: an old answer looks like a good one.
func (s *walService) watchFailover(ctx context.Context) error {
	p := &s.Config.Postgres
	if p.HotStandby || !p.Failover && len(p.Standbys) == 0 {
		return nil
	}
	defer s.failover.take(nil, s.Logger)
	for {
		found, err := s.survey(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.Logger.Debug("the next failover could not be looked at", zap.Error(err))
		}
		s.failover.take(found, s.Logger)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(failoverEvery * s.Config.Monitor.Interval):
		}
	}
}

func (s *walService) survey(ctx context.Context) ([]standbys.Forecast, error) {
	dsn, err := wiring.DSN(s.Config)
	if err != nil {
		return nil, err
	}
	conn, err := postgres.Connect(ctx, dsn, "cdc-outbox standbys")
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	return standbys.Survey(ctx, conn, dsn, s.Config.Postgres.Slot, s.Config.Postgres.Standbys)
}

// take keeps a survey's answers, and logs once what lasts, and its end.
func (n *nextFailover) take(found []standbys.Forecast, log *zap.Logger) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.bad
	n.forecasts, n.bad = found, map[string]badFailover{}
	for i := range found {
		f := &found[i]
		bad, known := before[f.Server]
		if f.Outcome == standbys.Continues {
			if bad.told {
				log.Info("a failover to the standby would continue the stream", zap.String(logkey.Server, f.Server))
			}
			continue
		}
		if !known {
			bad.since = time.Now().UTC()
		}
		bad.times++
		if !bad.told && bad.lasts(f) {
			bad.told = true
			log.Warn("it is not known that a failover to the standby would continue the stream", append(
				telemetry.RemedyFields(f.Next), zap.String(logkey.Server, f.Server),
				zap.String(logkey.Sentence, f.Sentence))...)
		}
		n.bad[f.Server] = bad
	}
}

// finding is the alert's: about the first standby, the others are counted.
func (n *nextFailover) finding() alert.Finding {
	n.mu.Lock()
	defer n.mu.Unlock()
	var first *standbys.Forecast
	var since time.Time
	more := 0
	for i := range n.forecasts {
		f := &n.forecasts[i]
		bad, is := n.bad[f.Server]
		if !is || !bad.lasts(f) {
			continue
		}
		if first != nil {
			more++
			continue
		}
		first, since = f, bad.since
	}
	if first == nil {
		return diagnose.Failover("", time.Time{}, "", fault.Remedy{})
	}
	summary := fmt.Sprintf("Failover to %s: %s", first.Server, first.Sentence)
	if more > 0 {
		summary += fmt.Sprintf(" And %d more.", more)
	}
	return diagnose.Failover(summary, since, first.Server, first.Next)
}

var (
	failoverDesc = prometheus.NewDesc("cdc_outbox_standby_failover_ready",
		"1 where a failover to the standby would continue the stream; absent where it cannot be asked.",
		[]string{"standby"}, nil)
	standbySlotDesc = prometheus.NewDesc("cdc_outbox_standby_slot_lag_bytes",
		"WAL from the position of the standby's copy of the slot to the confirmed one.", []string{"standby"}, nil)
	standbyWALDesc = prometheus.NewDesc("cdc_outbox_standby_wal_lag_bytes",
		"WAL of the primary that the standby has not received.", []string{"standby"}, nil)
)

// Describe implements prometheus.Collector.
func (n *nextFailover) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{failoverDesc, standbySlotDesc, standbyWALDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (n *nextFailover) Collect(ch chan<- prometheus.Metric) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.forecasts {
		f := &n.forecasts[i]
		if f.Outcome == standbys.Unknown {
			continue
		}
		gauge := func(d *prometheus.Desc, v int64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), f.Server)
		}
		ready := int64(0)
		if f.Outcome == standbys.Continues {
			ready = 1
		}
		gauge(failoverDesc, ready)
		gauge(standbySlotDesc, f.SlotLag)
		gauge(standbyWALDesc, f.WALLag)
	}
}
