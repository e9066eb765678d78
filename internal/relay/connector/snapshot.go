package connector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Snapshot is the connector's view of a *snapshot.Reader.
type Snapshot interface {
	Left() int64
	Batch(
		ctx context.Context, after int64, take func(n int64, rel *pgoutput.Relation, row pgoutput.Tuple) error,
	) (last int64, err error)
	Done(ctx context.Context, last int64) error
	Finish(ctx context.Context) error
	Close()
}

// SnapshotStatus is the progress of the initial snapshot.
type SnapshotStatus struct {
	Done  int64 `json:"done"` // in this process
	Total int64 `json:"total"`
}

type snapshotProgress struct {
	done, total atomic.Int64
	published   atomic.Bool // all of them
}

func (p *snapshotProgress) status() *SnapshotStatus {
	if total := p.total.Load(); total > 0 {
		return &SnapshotStatus{Done: p.done.Load(), Total: total}
	}
	return nil
}

// sayEvery is how often the log says how far the snapshot is.
const sayEvery = 10 * time.Second

// publishSnapshot publishes the initial snapshot: the rows that were in the outbox when the slot was made, before the
// first message is received. The open stream holds the slot meanwhile, so no other process does the same; its status
// updates continue.
//
// The rows have no tickets: the slot does not move before all of them are acknowledged, since nothing is received that
// it could move to. Acknowledged rows are struck off the list, batch by batch. A crash repeats the rows that were
// produced and not struck off; with transactions the position stored in Kafka prevents that.
func (r *reader) publishSnapshot(s stream) error {
	if r.c.cfg.Snapshot == nil || r.c.snapshot.published.Load() {
		return nil
	}
	list, err := r.c.cfg.Snapshot(r.c.life)
	if err != nil {
		return err
	}
	if list == nil {
		r.c.snapshot.published.Store(true)
		return nil
	}
	defer list.Close()
	if err := r.awaitStandbys(everything, time.Now()); err != nil {
		return err
	}
	r.c.snapshot.done.Store(0)
	r.c.snapshot.total.Store(list.Left())
	r.c.setState(relay.State{Name: relay.Snapshotting})
	r.c.log.Info("publishing rows that were in the outbox before the slot",
		zap.Int64(logkey.Rows, list.Left()))
	// No transaction that is streamed has a commit as low as this: the positions of these rows sort before all others.
	r.commit, r.commitTime, r.snapshot = r.tracker.Confirmed()-1, time.Now(), true
	w := snapshotRun{r: r, s: s, list: list, said: time.Now()}
	defer func() { r.snapshot, r.produced = false, 0 }()
	if err := w.run(); err != nil {
		return err
	}
	if err := list.Finish(r.c.life); err != nil {
		return err
	}
	r.c.snapshot.published.Store(true)
	r.c.log.Info("the rows that were in the outbox before the slot are published",
		zap.Int64(logkey.Rows, r.c.snapshot.done.Load()))
	r.c.snapshot.total.Store(0)
	r.c.setState(relay.State{Name: relay.Streaming})
	return nil
}

// snapshotRun is one pass over the list.
type snapshotRun struct {
	r     *reader
	s     stream
	list  Snapshot
	taken int64 // number of the last row that was dealt with
	rows  int64 // dealt with in this batch
	said  time.Time
}

func (w *snapshotRun) run() error {
	for after := int64(0); ; {
		last, err := w.list.Batch(w.r.c.life, after, w.publishRow)
		if err == nil && last > 0 {
			w.taken = last
		}
		if serr := w.strikeOff(); serr != nil && (err == nil || errors.Is(err, errHalted) ||
			errors.Is(err, errPaused) || errors.Is(err, errStopping)) {
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

// strikeOff waits until everything that was taken is acknowledged, and takes it off the list. It does so also if the
// batch ended early, so that the next pass repeats nothing.
func (w *snapshotRun) strikeOff() error {
	if w.taken == 0 {
		return nil
	}
	w.r.c.producer.Mark()
	w.r.c.producer.Commit()
	if err := w.r.c.producer.Drain(w.r.c.life); err != nil {
		return err
	}
	if err := w.list.Done(w.r.c.life, w.taken); err != nil {
		return err
	}
	done := w.r.c.snapshot.done.Add(w.rows)
	w.taken, w.rows = 0, 0
	w.r.c.progress.moved(time.Now())
	if now := time.Now(); now.Sub(w.said) >= sayEvery {
		w.said = now
		w.r.c.log.Info("publishing rows that were in the outbox before the slot",
			zap.Int64(logkey.Rows, done), zap.Int64(logkey.Of, w.r.c.snapshot.total.Load()))
	}
	return nil
}

func (w *snapshotRun) publishRow(n int64, rel *pgoutput.Relation, tuple pgoutput.Tuple) error {
	r := w.r
	select {
	case <-r.c.stopping:
		return errStopping
	case <-w.s.Broken():
		_, err := w.s.Receive()
		return err
	default:
	}
	if r.c.paused.Load() != nil {
		return errPaused
	}
	if _, err := r.meet(rel); err != nil {
		return err
	}
	pos := offsets.Position{Commit: r.commit, Index: uint32(n)}
	switch {
	case n <= r.sent: // before a connection broke
		r.c.counts.repeated.Add(1)
	case r.covered.holds(pos, r.timeline):
		r.c.counts.covered.Add(1)
	default:
		if err := r.produce(outboxRow{relation: rel, tuple: tuple, pos: pos}, nil); err != nil {
			return err
		}
		r.sent = n
	}
	w.taken = n
	w.rows++
	return nil
}
