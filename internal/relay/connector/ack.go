package connector

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
)

// acked takes one acknowledged batch. The producer calls it from one goroutine.
func (c *Connector) acked(d sink.Delivery) {
	n := len(d.Tickets)
	now := time.Now()
	err := c.tracker.Load().Ack(d.Tickets, func(commitTime time.Time, _ int) {
		if s := spanOf(d.Tags, commitTime); s != nil {
			c.cfg.Metrics.TracedCommitToAck(now.Sub(commitTime), s.TraceID(), s.SpanID())
			return
		}
		c.cfg.Metrics.CommitToAck(now.Sub(commitTime))
	})
	c.endSpans(&d, now)
	if err != nil {
		c.fail(&fault.Error{
			Kind: fault.Fatal, Object: fmt.Sprintf("topic %q partition %d", d.Topic, d.Partition), Err: err,
			Next: "Restart the connector: it resumes at the slot's confirmed position. Report this, with the log, " +
				"as a bug.",
		})
		return
	}
	c.window.Release(n, d.Bytes)
	select {
	case c.moved <- struct{}{}:
	default:
	}
	c.counts.published.Add(uint64(n))
	c.cfg.Metrics.Published(d.Topic, n)
}

// progress remembers when the oldest transaction last made progress, or nothing was waiting. Acknowledgements as such
// would not do: while Kafka does not take one partition, the others continue, and the slot does not move.
type progress struct {
	epoch time.Time    // of monotonic time: the wall clock may be set
	at    atomic.Int64 // since epoch
}

func (p *progress) moved(now time.Time) { p.at.Store(int64(now.Sub(p.epoch))) }

func (p *progress) age(now time.Time) time.Duration {
	return now.Sub(p.epoch) - time.Duration(p.at.Load())
}

// watchProgress samples once a second, so that the rows' way carries no clock, and says in the log when the relay
// stalls and when it goes on.
func (c *Connector) watchProgress(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	c.progress.moved(time.Now())
	var oldest offsets.LSN
	var acked uint32
	stalled := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			records, _ := c.window.InUse()
			if o, a := c.oldest(); o != oldest || a != acked || records == 0 {
				oldest, acked = o, a
				c.progress.moved(now)
			}
			stalled = c.reportStall(stalled, c.progress.age(now))
		}
	}
}

func (c *Connector) oldest() (commit offsets.LSN, acked uint32) {
	if t := c.tracker.Load(); t != nil {
		return t.Oldest()
	}
	return 0, 0
}

// reportStall logs the two changes, not the state.
func (c *Connector) reportStall(was bool, age time.Duration) bool {
	is := age > c.cfg.Stall
	switch {
	case is && !was:
		fields := []zap.Field{
			zap.Duration(logkey.Duration, age.Round(time.Second)),
			zap.String(logkey.Confirmed, c.confirmed().String()),
		}
		for _, t := range c.producer.Trouble() {
			fields = append(fields, zap.String(logkey.Object, t.Object),
				zap.String(logkey.Cause, t.Wait().Sentence()))
			fields = append(fields, telemetry.RemedyFields(t.Wait().Remedy())...)
			break // the oldest is the cause more often than not; /status lists them all
		}
		c.log.Warn("Kafka has not acknowledged the oldest event for longer than http.stall; the slot keeps its "+
			"position", fields...)
	case was && !is:
		c.log.Info("Kafka acknowledges again", zap.String(logkey.Confirmed, c.confirmed().String()))
	}
	return is
}
