package connector

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// watchDrain turns the end of ctx into a graceful stop: the reader is notified, and gets DrainLimit before everything
// ends.
func (c *Connector) watchDrain(ctx, life context.Context, end context.CancelFunc) error {
	select {
	case <-life.Done():
		return nil
	case <-ctx.Done():
	}
	close(c.stopping)
	if c.waitsForSlot() {
		end() // another instance holds the slot: there is nothing that this one could confirm
		return nil
	}
	c.setState(relay.State{Name: relay.Draining})
	c.log.Info("stopping: waiting for what is in flight", zap.Duration(logkey.Limit, c.cfg.DrainLimit))
	if s := c.currentStream(); s != nil {
		s.Interrupt()
	} else if c.tracker.Load() == nil {
		end() // never connected: there is nothing to wait for
		return nil
	}
	timer := time.NewTimer(c.cfg.DrainLimit)
	defer timer.Stop()
	select {
	case <-life.Done():
	case <-timer.C:
		c.log.Warn("stopped before everything was acknowledged; the next start sends the rest again",
			zap.Int(logkey.Rows, c.outstanding()), zap.String(logkey.Confirmed, c.confirmed().String()))
		end()
	}
	return nil
}

// markLimit bounds the last thing that is kept in Kafka.
const markLimit = 2 * time.Second

// finish waits for the acknowledgements and confirms them. The open transaction, if any, was read to its end before:
// stopping within one would confirm nothing of it, and its rows that are in Kafka already would come twice.
func (r *reader) finish(s stream) error {
	if err := r.c.producer.Drain(r.c.life); err != nil {
		return err
	}
	if err := s.Finish(r.c.life); err != nil {
		r.c.log.Warn("last confirmation may not have reached Postgres; the next start may send some events again",
			telemetry.ErrorFields(err)...)
		return nil
	}
	limited, cancel := context.WithTimeout(r.c.life, markLimit)
	defer cancel()
	if err := r.c.producer.Remembered(limited); err != nil {
		r.c.log.Debug("the checkpoint's number was not kept in Kafka", zap.Error(err))
	}
	r.c.log.Info("everything that was read is acknowledged and confirmed",
		zap.String(logkey.Confirmed, r.c.confirmed().String()))
	return nil
}

func (c *Connector) isStopping() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

func (c *Connector) outstanding() int {
	t := c.tracker.Load()
	if t == nil {
		return 0
	}
	rows, _, _ := t.Outstanding()
	return rows
}
