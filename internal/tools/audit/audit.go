package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
)

// Options of an audit.
type Options struct {
	DSN       string
	Admin     setup.Config
	Published string // column that marks published rows, if the relay polls; empty: the slot shows them

	Ledgers  []Ledger
	Since    time.Duration // how long before its end the window begins
	Grace    time.Duration // how long before now it ends
	Within   time.Duration // the objective for the time from commit to handling
	Wait     time.Duration // for the slot to confirm the WAL written before the audit
	Archives []string      // files of rows that prune has deleted, or directories of them
	Complete bool          // no row was ever deleted from the outbox tables, except the rows in Archives
	Examples int           // ids in a finding

	Progress progress.Reporter
}

// Ledger is the ledger of a consumer.
type Ledger struct {
	Consumer string
	DSN      string   // empty: the outbox's
	Table    string   // as SQL has it
	Types    []string // aggregate types that the consumer handles; empty: all
}

// batch is how many ids are looked up at a time.
const batch = 1000

// Run compares the outbox with each ledger.
func Run(ctx context.Context, o Options) (*Report, error) {
	if len(o.Admin.Tables) == 0 || o.Admin.Columns.Timestamp == "" {
		return nil, fault.Usage("audit needs an outbox table with a timestamp column",
			"name the column in router.columns.timestamp")
	}
	a, err := open(ctx, &o)
	if err != nil {
		return nil, undone(err)
	}
	defer a.close()
	r := &Report{
		Since: a.since.UTC(), Until: a.until.UTC(), Within: o.Within.Seconds(), Confirmed: a.confirmed,
		HeldBack: a.held, Clean: true,
	}
	r.Oldest, r.Unseen = a.seen()
	if len(o.Archives) > 0 {
		r.Archives = &a.archives
	}
	for _, l := range o.Ledgers {
		stop := o.Progress.Wait(progress.For("comparing the outbox with the ledger of " + l.Consumer))
		c, err := a.compare(ctx, l)
		stop()
		if err != nil {
			return nil, undone(err)
		}
		r.Consumers = append(r.Consumers, *c)
		r.Clean = r.Clean && len(c.Findings) == 0
	}
	return r, nil
}

// undone keeps the exit code of a finding for findings.
func undone(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Operator {
		return err
	}
	failed := *f
	failed.Kind = fault.Fatal
	return &failed
}

// comparison is one consumer's.
type comparison struct {
	*auditor
	Ledger
	*Consumer
	book *ledgerConn

	before  string // id of the row before
	missing []event
	extra   []handled
	extras  int64
	ghosts  []handled // without a row in the tables
}

func (a *auditor) compare(ctx context.Context, l Ledger) (*Consumer, error) {
	book, err := a.openLedger(ctx, l)
	if err != nil {
		return nil, err
	}
	defer book.close()
	c := &comparison{auditor: a, Ledger: l, book: book, Consumer: &Consumer{
		Name: l.Consumer, Findings: map[Kind]Finding{}, most: a.o.Examples,
	}}
	err = merge(a.events(ctx, l.Types), book.rows(ctx, l.Consumer, a.since), func(e *event, h *handled) error {
		return c.visit(ctx, e, h)
	})
	if err == nil {
		err = c.lookUpMissing(ctx)
	}
	if err == nil {
		err = c.lookUpExtra(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.Seconds = c.ages.percentiles()
	c.judgeGhosts()
	return c.Consumer, nil
}

func (c *comparison) visit(ctx context.Context, e *event, h *handled) error {
	if e == nil {
		if h.at.Before(c.until) {
			c.extra = append(c.extra, *h)
		}
		if len(c.extra) == batch {
			return c.lookUpExtra(ctx)
		}
		return nil
	}
	if e.beside {
		return nil
	}
	if c.Events > 0 && e.id == c.before {
		c.add(SameID, e.id, e.at, c.now)
	}
	c.Events++
	c.before = e.id
	if h != nil {
		c.match(e, h)
		return nil
	}
	if c.missing = append(c.missing, *e); len(c.missing) == batch {
		return c.lookUpMissing(ctx)
	}
	return nil
}

// match notes an event that the ledger has.
func (c *comparison) match(e *event, h *handled) {
	if !h.done {
		c.judgeTime(e, c.now)
		if h.at.Before(c.until) {
			c.add(Unfinished, e.id, e.at, c.now)
		}
		return
	}
	c.Handled++
	c.ages.add(h.at.Sub(e.at))
	c.judgeTime(e, h.at)
}

// judgeTime counts an event that was handled, or is still to be handled, after the objective.
func (c *comparison) judgeTime(e *event, at time.Time) {
	if at.Sub(e.at) > c.o.Within {
		c.Late++
	}
}

// lookUpMissing asks the ledger for events of the window, whenever they were handled.
func (c *comparison) lookUpMissing(ctx context.Context) error {
	if len(c.missing) == 0 {
		return nil
	}
	found, err := c.book.find(ctx, c.Ledger.Consumer, ids(c.missing, func(e event) string { return e.id }))
	if err != nil {
		return err
	}
	for i := range c.missing {
		e := &c.missing[i]
		h, ok := found[e.id]
		if ok {
			c.match(e, &h)
			continue
		}
		c.judgeTime(e, c.now)
		if e.published {
			c.add(Unhandled, e.id, e.at, c.now)
		} else {
			c.add(Unpublished, e.id, e.at, c.now)
		}
	}
	c.missing = c.missing[:0]
	return nil
}

// lookUpExtra asks the outbox for the events handled in the window, whenever they were written.
func (c *comparison) lookUpExtra(ctx context.Context) error {
	if len(c.extra) == 0 {
		return nil
	}
	present := map[string]bool{}
	for _, rows := range c.tables {
		found, err := rows.Present(ctx, ids(c.extra, func(h handled) string { return h.id }))
		if err != nil {
			return err
		}
		for id := range found {
			present[id] = true
		}
	}
	for i := range c.extra {
		h := &c.extra[i]
		if present[h.id] {
			continue
		}
		if c.extras++; len(c.ghosts) < c.most {
			c.ghosts = append(c.ghosts, *h)
		}
	}
	c.extra = c.extra[:0]
	return nil
}

// judgeGhosts decides whether an id without a row is a finding. It is not if the row may have been deleted, as prune
// deletes old rows: the table has to reach back further, before the window, than any event of the window took.
func (c *comparison) judgeGhosts() {
	reach := c.since.Add(-time.Duration(c.ages.max * float64(time.Second)))
	if oldest, _ := c.seen(); !c.o.Complete && (oldest.IsZero() || oldest.After(reach)) {
		c.NotJudged = c.extras
		return
	}
	for _, h := range c.ghosts {
		c.add(Ghost, h.id, h.at, c.now)
	}
	if f := c.Findings[Ghost]; c.extras > f.Count {
		f.Count = c.extras
		c.Findings[Ghost] = f
	}
}

func ids[T any](rows []T, id func(T) string) []string {
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = id(rows[i])
	}
	return out
}

// openTables opens the tables for lookups, and finds their oldest rows.
func (a *auditor) openTables(ctx context.Context) error {
	for _, t := range a.o.Admin.Tables {
		rows, err := outboxtable.Open(ctx, a.o.DSN, a.o.Admin, t, outboxtable.Filter{})
		if err != nil {
			return err
		}
		a.tables = append(a.tables, rows)
		if rows.IDIsBytes() {
			return &fault.Error{
				Kind: fault.Config, Object: "table " + t.String(),
				Err: errors.New("its ids are bytea, which a ledger has in another form"),
			}
		}
		oldest, ok, err := rows.Oldest(ctx)
		if err != nil {
			return fmt.Errorf("the oldest row: %w", err)
		}
		if !ok {
			oldest = time.Time{}
		}
		a.reach = append(a.reach, oldest)
	}
	return nil
}

// seen returns the time from which on the rows of all tables are known, zero if a table has none, and the parts of
// the window before it. Nothing distinguishes rows that were deleted from rows that never were.
func (a *auditor) seen() (oldest time.Time, unseen []Unseen) {
	empty := false
	for i, t := range a.o.Admin.Tables {
		reach := a.reach[i]
		if reach.After(oldest) {
			oldest = reach
		}
		if empty = empty || reach.IsZero(); reach.IsZero() || reach.After(a.until) {
			reach = a.until
		}
		if reach.After(a.since) && !a.o.Complete {
			unseen = append(unseen, Unseen{Table: t.String(), Until: reach.UTC()})
		}
	}
	if empty {
		oldest = time.Time{}
	}
	return oldest, unseen
}
