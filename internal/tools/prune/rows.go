package prune

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/archive"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

const (
	// archiveRows and archiveBytes limit a file of an archive. Its rows are deleted when it is on the disk.
	archiveRows  = 100_000
	archiveBytes = 64 << 20
)

// Options of a run.
type Options struct {
	Age              time.Duration // how old rows have to be
	Before           time.Time     // rows from then on stay, whatever their age; zero: their age decides
	Archive          string        // the directory that rows are written to before they are deleted, empty for none
	Batch            int           // rows a transaction deletes
	Pause            time.Duration // between two transactions
	Wait             time.Duration // for the connector to confirm the log up to the horizon
	LockTimeout      time.Duration
	StatementTimeout time.Duration
	TrustSlot        bool // do not ask the checkpoint about the slot
	DryRun           bool
	Partitions       bool // drop whole partitions, and delete no rows one by one

	Run       string // its id; it sorts by time, and archives have it in their names
	DSN       string
	Admin     setup.Config
	Published string // if the relay polls, the column that marks published rows
	Progress  progress.Reporter
}

// Table is the report about a table.
type Table struct {
	Table   string             `json:"table"`
	Cutoff  time.Time          `json:"older_than"`
	Oldest  *time.Time         `json:"oldest"`
	Rows    int64              `json:"rows"` // that may be deleted
	Deleted int64              `json:"deleted"`
	Files   []archive.Manifest `json:"archived"`

	Partitions []*Partition `json:"partitions,omitempty"`
}

// Run deletes old rows of all tables that Kafka has. The report goes as far as it came.
func Run(ctx context.Context, o Options) ([]*Table, error) {
	report := []*Table{}
	for _, t := range o.Admin.Tables {
		p := &pruning{o: &o, table: t, source: t, Table: Table{Table: t.String(), Files: []archive.Manifest{}}}
		report = append(report, &p.Table)
		do := p.do
		if o.Partitions {
			do = p.doPartitions
		}
		if err := do(ctx); err != nil {
			return report, err
		}
	}
	return report, nil
}

// pruning is the work on one table.
type pruning struct {
	Table
	o        *Options
	table    identifier.Table
	source   identifier.Table // the table, or the partition of it, that is read
	prepared []string         // see refusal

	rel   *pgoutput.Relation // as the archive's header describes it
	after *outboxtable.Key   // the last row that was dealt with
}

// span is a page of rows, first and last included.
type span struct{ first, last outboxtable.Key }

func (p *pruning) do(ctx context.Context) error {
	rows, h, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	if p.Rows, p.Oldest, err = rows.CountBelow(ctx); err != nil || p.o.DryRun || p.Rows == 0 {
		return err
	}
	if p.o.Published == "" {
		p.o.Progress.Say(fmt.Sprintf("%s: %d rows; waiting until the slot has confirmed %s", p.table, p.Rows, h.LSN))
		if err := rows.AwaitConfirmed(ctx, h, p.o.TrustSlot, p.o.Wait); err != nil {
			return err
		}
	}
	if err := rows.Limit(ctx, p.o.LockTimeout, p.o.StatementTimeout); err != nil {
		return err
	}
	var header archive.Header
	if p.o.Archive == "" {
		rows.KeysOnly()
	} else if header, err = p.describe(ctx, rows); err != nil {
		return err
	}
	for {
		spans, more, err := p.collect(ctx, rows, header)
		if err != nil {
			return err
		}
		if err := p.delete(ctx, rows, spans); err != nil || !more {
			return err
		}
	}
}

// open gives the rows that may go. The caller closes them.
func (p *pruning) open(ctx context.Context) (*outboxtable.Rows, outboxtable.Horizon, error) {
	rows, err := outboxtable.Open(ctx, p.o.DSN, p.o.Admin, p.table, outboxtable.Filter{})
	if err != nil {
		return nil, outboxtable.Horizon{}, err
	}
	h, err := p.horizon(ctx, rows)
	if err != nil {
		rows.Close()
		return nil, h, err
	}
	if keep := p.o.Before; !keep.IsZero() && keep.Before(h.Cutoff) {
		h.Cutoff = keep
	}
	p.Cutoff = h.Cutoff
	rows.Below(h)
	return rows, h, nil
}

func (p *pruning) horizon(ctx context.Context, rows *outboxtable.Rows) (outboxtable.Horizon, error) {
	if p.o.Published != "" {
		return rows.TakePublishedHorizon(ctx, p.o.Age, p.o.Published)
	}
	return rows.TakeHorizon(ctx, p.o.Age)
}

// collect returns the next pages: one, or as many as a file holds, which is on the disk then.
func (p *pruning) collect(
	ctx context.Context, rows *outboxtable.Rows, header archive.Header,
) (spans []span, more bool, err error) {
	var w *archive.Writer
	if p.o.Archive != "" {
		name := fmt.Sprintf(
			"%s.%s-%s-%04d", url.PathEscape(p.source.Schema), url.PathEscape(p.source.Name), p.o.Run, len(p.Files),
		)
		if w, err = archive.Create(p.o.Archive, name, header); err != nil {
			return nil, false, archiveFault(err)
		}
	}
	n := 0
	roomy := func() bool { return len(spans) == 0 || w != nil && n < archiveRows && w.Size() < archiveBytes }
	for more = true; more && err == nil && roomy(); {
		var page *span
		more, err = rows.Page(ctx, p.after, p.o.Batch, func(
			rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key,
		) error {
			if page == nil {
				page = &span{first: key}
			}
			page.last = key
			n++
			if w == nil {
				return nil
			}
			if rel != p.rel {
				return archiveFault(errors.New("the table's columns were changed meanwhile"))
			}
			return archiveFault(w.Write(row, archive.Key(key)))
		})
		if page != nil {
			spans, p.after = append(spans, *page), &page.last
		}
	}
	if w == nil {
		return spans, more, err
	}
	if err != nil || n == 0 {
		w.Abort()
		return nil, more, err
	}
	m, err := w.Finish()
	if err != nil {
		return nil, false, archiveFault(err)
	}
	p.Files = append(p.Files, m)
	return spans, more, nil
}

func archiveFault(err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.Operator, Object: "--archive", Err: err, Next: "Rows that are in no whole file " +
		"were not deleted; prune again."}
}

// delete deletes page by page.
func (p *pruning) delete(ctx context.Context, rows *outboxtable.Rows, spans []span) error {
	for _, s := range spans {
		n, err := rows.Delete(ctx, s.first, s.last)
		if err != nil {
			return err
		}
		p.Deleted += n
		p.o.Progress.Step(progress.Step{
			What: p.table.String(), Done: p.Deleted, Total: p.Rows, Unit: "rows deleted",
		})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.o.Pause):
		}
	}
	return nil
}

// describe returns the header of the archive's files.
func (p *pruning) describe(ctx context.Context, rows *outboxtable.Rows) (h archive.Header, err error) {
	d, err := rows.Describe(ctx)
	if err != nil {
		return h, err
	}
	p.rel = d.Relation
	h = archive.Header{
		Run: p.o.Run, Written: time.Now().UTC(), Schema: p.table.Schema, Table: p.table.Name, OID: d.Relation.OID,
		Server: d.ServerVersion, SystemID: d.SystemID, Database: d.Database,
	}
	for _, c := range d.Relation.Columns {
		h.Columns = append(
			h.Columns, archive.Column{Name: c.Name, Type: d.Types[c.Name], TypeOID: c.TypeOID, Modifier: c.Modifier},
		)
	}
	return h, nil
}
