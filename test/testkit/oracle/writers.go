package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Outcomes are what the writers know of their transactions. Unknown ones broke at or around the commit: the table shows
// which.
type Outcomes struct{ Committed, RolledBack, Failed, Unknown, Rows int }

// Load is how the writers write.
type Load struct {
	Writers  int           // default 3
	Pause    time.Duration // mean pause between a writer's bursts; default 10ms
	Prepared bool          // some transactions go through PREPARE TRANSACTION
	// AnyDSN is where to write; default: the oracle's. It may fail at any time, the writers come back.
	AnyDSN string
}

// Writers are running writers.
type Writers struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu  sync.Mutex
	out Outcomes
}

// Stop lets each writer finish its transaction and returns what became of them all.
func (w *Writers) Stop() Outcomes {
	w.stop()
	w.wg.Wait()
	return w.out
}

// Outcomes so far.
func (w *Writers) Outcomes() Outcomes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out
}

// StartWriters starts concurrent writers that go on until they are stopped.
func (o *Oracle) StartWriters(l Load) *Writers {
	if l.Writers == 0 {
		l.Writers = 3
	}
	if l.Pause == 0 {
		l.Pause = 10 * time.Millisecond
	}
	if l.AnyDSN == "" {
		l.AnyDSN = o.cfg.DSN
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Writers{stop: stop}
	o.generation++
	for i := range l.Writers {
		rng := rand.New(rand.NewPCG(o.cfg.Seed, uint64(o.generation)<<32|uint64(i)))
		one := &writer{all: w, dsn: l.AnyDSN, pause: l.Pause, planner: planner{
			rng: rng, kinds: o.cfg.AggregateTypes, keys: o.cfg.Keys, prepared: l.Prepared,
			gids: fmt.Sprintf("%s_%d_%d_", o.truthName(), o.generation, i),
		}}
		w.wg.Go(func() { one.run(ctx) })
	}
	return w
}

type writer struct {
	all     *Writers
	dsn     string
	pause   time.Duration
	planner planner
	conn    *pgx.Conn
}

// run writes bursts of one to eight transactions: within a burst one's commit record directly follows the other's where
// no other writer comes in between.
func (w *writer) run(ctx context.Context) {
	defer func() {
		// Over a new connection where the last one broke: a prepared transaction would outlive the writers, and keep
		// the database from being dropped.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if w.connected(ctx) {
			w.commitPrepared()
			w.conn.Close(context.Background())
		}
	}()
	for ctx.Err() == nil {
		for range 1 + w.planner.rng.IntN(8) {
			w.execute(w.planner.next())
		}
		pause := time.Duration(w.planner.rng.Int64N(int64(2 * w.pause)))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// execute runs one transaction to its end: a stop does not break it, only a server that is away for long.
func (w *writer) execute(tx plan) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if !w.connected(ctx) {
		w.count(func(o *Outcomes) { o.Failed++ })
		time.Sleep(20 * time.Millisecond)
		return
	}
	err := w.send(ctx, tx.sql)
	if err == nil && tx.ends == prepareCommit {
		err = w.send(ctx, "COMMIT PREPARED "+quote(tx.gid))
	}
	if err == nil && tx.ends == prepareRollback {
		err = w.send(ctx, "ROLLBACK PREPARED "+quote(tx.gid))
	}
	var refused *pgconn.PgError
	switch {
	case err == nil && (tx.ends == commit || tx.ends == prepareCommit):
		w.count(func(o *Outcomes) { o.Committed++; o.Rows += tx.rows })
	case err == nil:
		w.count(func(o *Outcomes) { o.RolledBack++ })
	case errors.As(err, &refused) && !w.conn.IsClosed():
		w.count(func(o *Outcomes) { o.Failed++ })
		_ = w.send(ctx, "ROLLBACK")
	default:
		w.count(func(o *Outcomes) { o.Unknown++ })
		w.conn.Close(ctx)
		w.conn = nil
	}
}

func (w *writer) send(ctx context.Context, sql string) error {
	_, err := w.conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func (w *writer) connected(ctx context.Context) bool {
	if w.conn != nil && !w.conn.IsClosed() {
		return true
	}
	conn, err := pgx.Connect(ctx, w.dsn)
	if err != nil {
		return false
	}
	w.conn = conn
	w.commitPrepared()
	return true
}

// commitPrepared commits this writer's prepared transactions that a broken connection left behind: they hold the
// counters' locks.
func (w *writer) commitPrepared() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rows, err := w.conn.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, $1)", w.planner.gids)
	if err != nil {
		return
	}
	gids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return
	}
	for _, gid := range gids {
		_ = w.send(ctx, "COMMIT PREPARED "+quote(gid))
	}
}

func (w *writer) count(f func(*Outcomes)) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	f(&w.all.out)
}
