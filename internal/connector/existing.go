package connector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// Snapshot is what the connector needs of a *replication.Snapshot.
type Snapshot interface {
	Left() int64
	Batch(ctx context.Context, after int64, take func(n int64, rel *pgoutput.Relation, row pgoutput.Tuple) error) (last int64, err error)
	Done(ctx context.Context, last int64) error
	Finish(ctx context.Context) error
	Close()
}

// SnapshotStatus says how far the rows are that were in the outbox before the slot.
type SnapshotStatus struct {
	Done  int64 `json:"done"` // in this process
	Total int64 `json:"total"`
}

type existingProgress struct {
	done, total atomic.Int64
	published   atomic.Bool // all of them
}

func (p *existingProgress) status() *SnapshotStatus {
	if total := p.total.Load(); total > 0 {
		return &SnapshotStatus{Done: p.done.Load(), Total: total}
	}
	return nil
}

// sayEvery is how often the log says how far the snapshot is.
const sayEvery = 10 * time.Second

// publishExisting publishes the rows that were in the outbox when the slot was made, before the first message is
// received. The open stream holds the slot meanwhile, so nobody else does the same; its status updates go on.
//
// The rows have no tickets: the slot does not move before all of them are acknowledged, since nothing is received that it
// could move to. What is acknowledged is struck off the list, batch by batch. A crash repeats what was produced and not
// struck off; with transactions the position kept in Kafka tells.
func (c *Connector) publishExisting(s stream, t *offsets.Tracker) error {
	if c.cfg.Snapshot == nil || c.existing.published.Load() {
		return nil
	}
	list, err := c.cfg.Snapshot(c.life)
	if err != nil {
		return err
	}
	if list == nil {
		c.existing.published.Store(true)
		return nil
	}
	defer list.Close()
	c.existing.done.Store(0)
	c.existing.total.Store(list.Left())
	c.setState(relay.State{Name: relay.Snapshotting})
	c.log.Info("Publishing the rows that were in the outbox before the slot", zap.Int64(telemetry.KeyRows, list.Left()))
	w := existing{c: c, s: s, t: t, list: list, said: time.Now()}
	// No transaction that is streamed has a commit as low as this: the positions of these rows sort before all others.
	w.commit = t.Confirmed() - 1
	c.reader.commit, c.reader.commitTime, c.reader.existing = w.commit, time.Now(), true
	defer func() { c.reader.existing, c.reader.produced = false, 0 }()
	if err := w.run(); err != nil {
		return err
	}
	if err := list.Finish(c.life); err != nil {
		return err
	}
	c.existing.published.Store(true)
	c.log.Info("All rows that were in the outbox before the slot are published", zap.Int64(telemetry.KeyRows, c.existing.done.Load()))
	c.existing.total.Store(0)
	c.setState(relay.State{Name: relay.Streaming})
	return nil
}

// existing is one pass over the list.
type existing struct {
	c      *Connector
	s      stream
	t      *offsets.Tracker
	list   Snapshot
	commit offsets.LSN
	taken  int64 // number of the last row that was dealt with
	rows   int64 // dealt with in this batch
	said   time.Time
	row    pgoutput.Message
}

func (w *existing) run() error {
	for after := int64(0); ; {
		last, err := w.list.Batch(w.c.life, after, w.take)
		if err == nil && last > 0 {
			w.taken = last
		}
		if serr := w.strikeOff(); serr != nil && (err == nil || errors.Is(err, errHalted) || errors.Is(err, errStopping)) {
			return serr
		}
		if err != nil {
			return err
		}
		if last == 0 {
			return nil
		}
		after = last
	}
}

// strikeOff waits until everything that was taken is acknowledged, and takes it off the list. It does so also where the
// batch ended early, so that nothing is repeated by whoever goes on.
func (w *existing) strikeOff() error {
	if w.taken == 0 {
		return nil
	}
	w.c.producer.Mark()
	w.c.producer.Commit()
	if err := w.c.producer.Drain(w.c.life); err != nil {
		return err
	}
	if err := w.list.Done(w.c.life, w.taken); err != nil {
		return err
	}
	done := w.c.existing.done.Add(w.rows)
	w.taken, w.rows = 0, 0
	w.c.progress.moved(time.Now())
	if now := time.Now(); now.Sub(w.said) >= sayEvery {
		w.said = now
		w.c.log.Info("Publishing the rows that were in the outbox before the slot", zap.Int64(telemetry.KeyRows, done), zap.Int64("of", w.c.existing.total.Load()))
	}
	return nil
}

func (w *existing) take(n int64, rel *pgoutput.Relation, row pgoutput.Tuple) error {
	c := w.c
	select {
	case <-c.stopping:
		return errStopping
	case <-w.s.Broken():
		_, err := w.s.Receive()
		return err
	default:
	}
	if _, err := c.meet(rel); err != nil {
		return err
	}
	pos := offsets.Position{Commit: w.commit, Index: uint32(n)}
	if c.haltedAt(pos) {
		return errHalted
	}
	switch {
	case n <= c.reader.sent: // before a connection broke
		c.counts.repeated.Add(1)
	case c.reader.covered.holds(pos, c.reader.timeline):
		c.counts.covered.Add(1)
	default:
		w.row.Kind, w.row.Relation, w.row.Tuple = pgoutput.KindInsert, rel, row
		if err := c.produce(w.t, &w.row, pos, 0, nil); err != nil {
			return err
		}
		c.reader.sent = n
	}
	w.taken = n
	w.rows++
	return nil
}
