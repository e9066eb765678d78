package polling

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// batchBytes is about how many bytes of rows a worker keeps.
const batchBytes = 4 << 20

// claims is a connection that makes claims.
type claims interface {
	claim(ctx context.Context, s *statements, candidates []int, limit int) (got []int, more bool, err error)
	read(ctx context.Context, s *statements, claimed []int, perLane, bytes int, known *pgoutput.Relation,
		b *batch) error
	renew(ctx context.Context, s *statements, marks string, want []int) (got []int, err error)
	finish(ctx context.Context, s *statements, marks string) error
	close()
}

// worker claims lanes, publishes their rows and marks them, one claim after the other. Only its goroutine touches it,
// except that the producer's reports acknowledgements to the batch.
type worker struct {
	r      *Relay
	ticket uint64 // of its rows, without the index
	router router.Router
	conn   claims
	batch  *batch

	share    int // lanes that it claims at most, so that there are some for the others
	limit    int // rows to ask for: fewer when they are large
	relation map[*source]*pgoutput.Relation
}

func newWorker(r *Relay, n int, route router.Router) *worker {
	return &worker{
		r: r, ticket: uint64(n) << ticketBits, router: route,
		conn: &connection{
			cfg: &r.cfg, name: sessionOf(r.cfg.Tables), made: r.connectionMade, verified: true,
		},
		batch: newBatch(), share: max(1, Lanes/r.cfg.Workers), limit: r.cfg.Batch,
		relation: map[*source]*pgoutput.Relation{},
	}
}

// run ends with nil when a graceful stop is over.
func (w *worker) run(ctx context.Context) error {
	defer w.conn.close()
	again := newRetry()
	for !w.r.isStopping() && ctx.Err() == nil {
		if p := w.r.paused.Load(); p != nil {
			w.r.awaitResume(ctx, p)
			continue
		}
		worked, err := w.rounds(ctx)
		switch {
		case err == nil && worked:
			again.reset()
		case err == nil:
			again.reset()
			w.r.idle(ctx)
		case ctx.Err() != nil:
			return ctx.Err()
		case fault.KindOf(err) != fault.Retry:
			return err
		default:
			w.r.postgresFailed(err)
			again.wait(ctx, w.r.stopping)
		}
	}
	return ctx.Err()
}

// rounds makes one for each table.
func (w *worker) rounds(ctx context.Context) (worked bool, err error) {
	first := rand.IntN(len(w.r.sources))
	for i := range w.r.sources {
		one, err := w.round(ctx, w.r.sources[(first+i)%len(w.r.sources)])
		if err != nil {
			return worked, err
		}
		worked = worked || one
	}
	return worked, nil
}

// round is one claim: lanes, their rows, the marks.
func (w *worker) round(ctx context.Context, s *source) (worked bool, err error) {
	candidates := s.lanes.free(rand.IntN(Lanes))
	if len(candidates) == 0 {
		return false, nil
	}
	got, more, err := w.conn.claim(ctx, s.statements, candidates, w.share)
	if err != nil {
		return false, err
	}
	w.r.postgresAnswered()
	mine := s.lanes.take(got)
	if len(mine) == 0 {
		return false, w.conn.finish(ctx, s.statements, "")
	}
	defer s.lanes.give(mine)
	w.r.found.Store(true)
	if more {
		w.r.signal()
	}
	if err := w.read(ctx, s, mine); err != nil {
		return false, err
	}
	s.released(w.r, w.batch)
	if err := w.deliver(ctx, s); err != nil {
		return false, err
	}
	return len(w.batch.rows) > 0, w.finishClaim(ctx, s)
}

func (w *worker) read(ctx context.Context, s *source, mine []int) error {
	w.batch.reset()
	err := w.conn.read(ctx, s.statements, mine, max(1, w.limit/len(mine)), batchBytes, w.relation[s], w.batch)
	if err != nil {
		w.batch.reset() // nothing of it was handed over
		return err
	}
	w.limit = w.batch.fitting(w.r.cfg.Batch, batchBytes)
	if rel := w.batch.relation; rel != nil && rel != w.relation[s] {
		if err := w.router.Prepare(rel); err != nil {
			return err
		}
		w.relation[s] = rel
	}
	return nil
}

// finishClaim marks the rows in Kafka, and ends the claim. The lanes are this worker's until it is done, however long
// that takes: rows that are in Kafka and not marked would be published again by the next one. Other processes do not
// know that, so a claim that was lost is made again first.
func (w *worker) finishClaim(ctx context.Context, s *source) error {
	again := newRetry()
	for {
		err := w.markPublished(ctx, s)
		if err == nil || fault.KindOf(err) != fault.Retry || ctx.Err() != nil {
			return err
		}
		w.r.postgresFailed(err)
		again.wait(ctx, nil)
		if lanes := w.batch.unmarked(); len(lanes) > 0 && ctx.Err() == nil {
			// if it fails, marking will fail as well, or need no claim
			_, _ = w.conn.renew(ctx, s.statements, "", lanes)
		}
	}
}

func (w *worker) markPublished(ctx context.Context, s *source) error {
	indexes := w.batch.marks()
	sql := ""
	if len(indexes) > 0 {
		sql = s.mark(w.batch.rows, indexes)
	}
	if err := w.conn.finish(ctx, s.statements, sql); err != nil {
		return err
	}
	w.batch.markedAll(indexes)
	w.r.postgresAnswered()
	return nil
}

// released forgets that a lane is halted at a row which the batch shows to be over: it has a later row of the lane, and
// not the halted row. A batch without a later row shows nothing: it may have been cut before, or begin with a row that
// was committed late.
func (s *source) released(r *Relay, b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.halted) == 0 {
		return
	}
	for i := range b.rows {
		row := &b.rows[i]
		h := s.halted[row.lane]
		if h == nil || row.seq < h.seq {
			continue
		}
		if before := i - 1; row.seq > h.seq && (before < 0 || b.rows[before].lane != row.lane ||
			b.rows[before].seq < h.seq) {
			s.goOn(r, row.lane)
		}
	}
}

// goOn ends the halt of a lane. s.mu is held.
func (s *source) goOn(r *Relay, lane int) {
	h := s.halted[lane]
	delete(s.halted, lane)
	delete(s.decided, lane)
	s.lanes.wake(lane)
	r.log.Info("halted row no longer exists or was corrected; its lane continues", zap.String(logkey.Event, h.EventID),
		zap.String(logkey.Position, h.Position), zap.String(logkey.Table, s.table.String()))
}

// retry waits longer each time.
type retry struct{ b *backoff.ExponentialBackOff }

func newRetry() *retry {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, 5*time.Second
	return &retry{b}
}

func (r *retry) reset() { r.b.Reset() }

func (r *retry) wait(ctx context.Context, stop <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-stop:
	case <-time.After(r.b.NextBackOff()):
	}
}
