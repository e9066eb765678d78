package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/archive"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

const (
	// archiveRows and archiveBytes are where a file of an archive ends. Its rows are deleted when it is on the disk.
	archiveRows  = 100_000
	archiveBytes = 64 << 20
)

// pruning is what happens to one table.
type pruning struct {
	pruned
	o        *pruneOptions
	run      string
	table    identifier.Table
	source   identifier.Table // the table, or the partition of it, that is read
	progress io.Writer
	prepared []string // see refusal

	published string // where the relay polls, the column that says what Kafka has

	rel   *pgoutput.Relation // as the archive's header describes it
	after *outboxtable.Key   // the last row that was dealt with
	said  time.Time
}

// span is a page of rows, first and last included.
type span struct{ first, last outboxtable.Key }

func (p *pruning) do(ctx context.Context, s wiring.Target) error {
	rows, h, err := p.open(ctx, s)
	if err != nil {
		return err
	}
	defer rows.Close()
	if p.Rows, p.Oldest, err = rows.CountBelow(ctx); err != nil || p.o.dryRun || p.Rows == 0 {
		return err
	}
	if p.published == "" {
		fmt.Fprintf(p.progress, "%s: %d rows; waiting until the slot has confirmed %s\n", p.table, p.Rows, h.LSN)
		if err := rows.AwaitConfirmed(ctx, h, p.o.trustSlot, p.o.wait); err != nil {
			return err
		}
	}
	if err := rows.Limit(ctx, p.o.lockTimeout, p.o.statementTimeout); err != nil {
		return err
	}
	var header archive.Header
	if p.o.archive == "" {
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
func (p *pruning) open(ctx context.Context, s wiring.Target) (*outboxtable.Rows, outboxtable.Horizon, error) {
	rows, err := outboxtable.Open(ctx, s.DSN, s.Admin, p.table, outboxtable.Filter{})
	if err != nil {
		return nil, outboxtable.Horizon{}, err
	}
	h, err := p.horizon(ctx, rows)
	if err != nil {
		rows.Close()
		return nil, h, err
	}
	p.Cutoff = h.Cutoff
	rows.Below(h)
	return rows, h, nil
}

func (p *pruning) horizon(ctx context.Context, rows *outboxtable.Rows) (outboxtable.Horizon, error) {
	if p.published != "" {
		return rows.TakePublishedHorizon(ctx, p.o.age, p.published)
	}
	return rows.TakeHorizon(ctx, p.o.age)
}

// collect returns the next pages: one, or as many as a file holds, which is on the disk then.
func (p *pruning) collect(ctx context.Context, rows *outboxtable.Rows, header archive.Header) (spans []span, more bool, err error) {
	var w *archive.Writer
	if p.o.archive != "" {
		name := fmt.Sprintf("%s.%s-%s-%04d", url.PathEscape(p.source.Schema), url.PathEscape(p.source.Name), p.run, len(p.Files))
		if w, err = archive.Create(p.o.archive, name, header); err != nil {
			return nil, false, archiveFault(err)
		}
	}
	n := 0
	for more = true; more && err == nil && (len(spans) == 0 || w != nil && n < archiveRows && w.Size() < archiveBytes); {
		var page *span
		more, err = rows.Page(ctx, p.after, p.o.batch, func(rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key) error {
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
	return &fault.Error{Kind: fault.Operator, Object: "--archive", Err: err, Next: "Rows that are in no whole file were not deleted; prune again."}
}

// delete deletes page by page.
func (p *pruning) delete(ctx context.Context, rows *outboxtable.Rows, spans []span) error {
	for _, s := range spans {
		n, err := rows.Delete(ctx, s.first, s.last)
		if err != nil {
			return err
		}
		p.Deleted += n
		if now := time.Now(); now.Sub(p.said) >= 5*time.Second {
			fmt.Fprintf(p.progress, "%s: %d of %d rows deleted\n", p.table, p.Deleted, p.Rows)
			p.said = now
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.o.pause):
		}
	}
	return nil
}
