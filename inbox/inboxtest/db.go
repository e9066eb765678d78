package inboxtest

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Step is a place in the transaction of a delivery at which its process dies.
type Step int

const (
	// BeforeCommit is after the handler has returned: the server undoes the claim and the handler's writes.
	BeforeCommit Step = iota + 1
	// AfterCommit is after the server has committed, and before anything has heard of it: the event was handled, and
	// is delivered again.
	AfterCommit
	// Survive is none.
	Survive
)

// DB is the database of an inbox whose deliveries may die. It is safe for concurrent use.
type DB struct {
	db inbox.DB

	mu    sync.Mutex
	steps []Step
	died  int
}

// Wrap returns a DB. db has to be a pool: a delivery that dies takes its connection along.
func Wrap(db inbox.DB) *DB { return &DB{db: db} }

// DieNext has the next transactions that come to their commit die at these steps, one each.
func (d *DB) DieNext(steps ...Step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, steps...)
}

// Died is how many have died.
func (d *DB) Died() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.died
}

// SendBatch implements inbox.DB.
func (d *DB) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	results := d.db.SendBatch(ctx, b)
	return begun{results, &mortal{results.Tx(), d}}
}

// begun are the results of a batch that has begun a mortal transaction.
type begun struct {
	pgx.BatchResults
	tx *mortal
}

// Tx implements pgx.BatchResults.
func (b begun) Tx() pgx.Tx { return b.tx }

func (d *DB) next() Step {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.steps) == 0 {
		return Survive
	}
	step := d.steps[0]
	if d.steps = d.steps[1:]; step != Survive {
		d.died++
	}
	return step
}

// mortal is a transaction whose connection may end at its commit.
type mortal struct {
	pgx.Tx
	db *DB
}

// Commit implements pgx.Tx.
func (m *mortal) Commit(ctx context.Context) error {
	switch m.db.next() {
	case BeforeCommit:
		_ = m.Tx.Conn().Close(ctx)
		return errors.New("inboxtest: the process died before the commit")
	case AfterCommit:
		if err := m.Tx.Commit(ctx); err != nil {
			return err
		}
		return errors.New("inboxtest: the process died after the commit")
	}
	return m.Tx.Commit(ctx)
}
