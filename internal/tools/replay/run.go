package replay

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/publish"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/topics"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Options of a run.
type Options struct {
	Choice
	Pace
	Run    string // the id of a new run; it sorts by time
	Resume string // the file that keeps the state; empty: none

	DSN         string
	Admin       setup.Config // the tables and their columns
	Kafka       kafka.Config
	Router      router.Router
	Unplaced    bool                         // records get no position
	Topics      *topics.Outbox               // searched for positions unless the choice names topics
	HeaderID    func([]byte) []byte          // reads an id from its header; nil if the header is the id
	HeaderBytes func(string) ([]byte, error) // reads bytes from a header; nil if they are as Postgres prints them

	IntoCompacted bool // also into compacted topics

	Progress progress.Reporter
}

// Report is the result of a run.
type Report struct {
	Run       string            `json:"run"`
	Done      bool              `json:"done"`
	DryRun    bool              `json:"dry_run"`
	Rows      int64             `json:"rows"` // also the rows of earlier parts of the run
	Topics    map[string]*Topic `json:"topics"`
	Unpublish int64             `json:"not_published"`
	Examples  []string          `json:"examples"`
	Seconds   float64           `json:"seconds"`
}

// Topic counts a topic's records.
type Topic struct {
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// Run publishes the chosen rows. The report is nil if Run failed before it had begun.
func Run(ctx context.Context, o Options) (*Report, error) {
	state, err := openState(&o)
	if err != nil {
		return nil, err
	}
	defer state.close()
	p := &publisher{
		Pace: o.Pace, run: state.Run, router: o.Router, unplaced: o.Unplaced, began: time.Now(), rows: state.Rows,
		topics: map[string]*Topic{},
	}
	if !o.DryRun && !state.Done {
		if p.sender, err = publish.New(ctx, o.Kafka, o.Progress); err != nil {
			return nil, err
		}
		defer p.sender.Close()
		if !o.IntoCompacted {
			p.guard = &publish.Guard{Cluster: o.Kafka.Cluster, Progress: o.Progress}
		}
	}
	r := &run{o: &o, state: state, publisher: p}
	if err = r.all(ctx); err == nil {
		state.Done = true
		err = state.save()
	}
	if err == nil && !o.DryRun && p.bad > 0 {
		err = &fault.Error{
			Kind: fault.Operator, Object: "replay", Err: errors.New(
				notPublished(p.bad),
			), Next: "Their reasons are above.",
		}
	}
	return &Report{
		Run: state.Run, Done: state.Done && !o.DryRun, DryRun: o.DryRun, Rows: state.Rows, Topics: p.topics,
		Unpublish: p.bad,
		Examples:  append([]string{}, p.examples...), Seconds: time.Since(p.began).Seconds(),
	}, err
}

// run moves rows from sources to the publisher, and the state after them.
type run struct {
	o         *Options
	state     *State
	publisher *publisher
	expected  int64 // about how many rows the run will publish; 0: not known
}

// all publishes the remaining rows of all sources.
func (r *run) all(ctx context.Context) error {
	if r.state.Done {
		return nil
	}
	filter, err := r.o.filter()
	if err != nil {
		return err
	}
	if r.o.ByPosition() {
		w, err := r.o.window()
		if err != nil {
			return err
		}
		return r.drain(ctx, &positions{o: r.o, state: r.state, window: w, filter: filter})
	}
	for r.state.Source < len(r.o.Files) && err == nil {
		err = r.drain(
			ctx,
			&file{path: r.o.Files[r.state.Source], columns: r.o.Admin.Columns, filter: filter, done: r.state.FileRows},
		)
	}
	for len(r.o.Files) == 0 && r.state.Source < len(r.o.Admin.Tables) && err == nil {
		before := r.state.Rows
		if r.state.Key != nil {
			before = 0 // an interrupted run goes on within the table
		}
		err = r.drain(ctx, &table{
			o: r.o, state: r.state, name: r.o.Admin.Tables[r.state.Source], filter: filter,
			expect: func(rows int64) { r.expected = before + rows },
		})
	}
	return err
}

// drain publishes the remaining rows of a source.
func (r *run) drain(ctx context.Context, s Source) error {
	for row, err := range s.Rows(ctx) {
		if err != nil {
			return err
		}
		full := true
		if row.Relation != nil {
			full, err = r.publisher.Add(row)
		}
		if full {
			err = errors.Join(r.flush(ctx, row), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flush publishes the batch, and saves the state. At a mark the state moves to the mark.
func (r *run) flush(ctx context.Context, row Row) error {
	cursor, err := r.publisher.Flush(ctx)
	if err != nil {
		return err
	}
	r.state.Rows, r.state.refused = r.publisher.rows, r.publisher.bad
	if cursor != nil {
		cursor.moveTo(r.state)
	}
	r.o.Progress.Step(progress.Step{
		What: "replay", Done: r.state.Rows, Total: r.expected, About: true, Unit: "rows", Place: r.state.progressText(),
	})
	if row.Relation == nil && row.Cursor != nil {
		row.Cursor.moveTo(r.state)
	}
	return r.state.save()
}

// sayOrder warns, before anything is published, if rows have no time to be ordered by.
func sayOrder(p progress.Reporter, rows *outboxtable.Rows) {
	if text := rows.Ordered(); text != "" {
		p.Say(text)
	}
}
