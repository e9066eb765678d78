package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/archive"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Archives are the files of deleted rows that an audit was given.
type Archives struct {
	Files      int   `json:"files"`       // that were read
	Rows       int64 `json:"rows"`        // in them
	PassedOver int   `json:"passed_over"` // files that are too old for the window, or of other tables
}

// archivedTable has the rows of archives, so that Postgres sorts them with the others. It belongs to a transaction,
// because a pooler may give the next one another session.
const archivedTable = "cdc_outbox_audit_archived"

// archiveFile is a file with rows of a table of the audit.
type archiveFile struct {
	path  string
	table int     // its place among the tables
	last  *string // the time of the youngest row, as Postgres prints it
}

// loadArchives reads the files. One that ends before the window by more than the window's length is passed over: events
// handled in the window are younger, or are not judged.
func (a *auditor) loadArchives(ctx context.Context) error {
	if len(a.o.Archives) == 0 {
		return nil
	}
	defer a.o.Progress.Wait(progress.For("reading the archives"))()
	files, err := a.archiveFiles()
	if err != nil {
		return err
	}
	if err := a.createArchived(ctx); err != nil {
		return err
	}
	bound := a.since.Add(-a.o.Since)
	older := map[int]bool{} // tables of which files were passed over for their age
	for i, f := range files {
		young, err := a.reaches(ctx, f, bound)
		if err != nil {
			return err
		}
		if !young {
			a.archives.PassedOver++
			older[f.table] = true
			continue
		}
		n, err := a.copyArchive(ctx, f, i+1)
		if err != nil {
			return err
		}
		a.archives.Files++
		a.archives.Rows += n
	}
	if _, err := a.conn.Exec(ctx, "ANALYZE "+archivedTable); err != nil {
		return postgres.QueryFault("server", err)
	}
	for i := range a.reach {
		if err := a.extendReach(ctx, i, older[i], bound); err != nil {
			return err
		}
	}
	return nil
}

// archiveFiles finds the files of the audit's tables.
func (a *auditor) archiveFiles() (files []archiveFile, err error) {
	for _, path := range a.o.Archives {
		paths, err := archive.Files(path)
		if err != nil {
			return nil, fault.Usage("--archive: "+fault.Printable(err.Error()),
				"name a file that prune --archive wrote, or its directory")
		}
		for _, p := range paths {
			h, m, err := archive.About(p)
			if err != nil {
				return nil, archiveFault(err)
			}
			table := slices.Index(a.o.Admin.Tables, identifier.Table{Schema: h.Schema, Name: h.Table})
			if table < 0 {
				a.archives.PassedOver++
				continue
			}
			f := archiveFile{path: p, table: table}
			if m.Last != nil {
				f.last = m.Last.Timestamp
			}
			files = append(files, f)
		}
	}
	return files, nil
}

func (a *auditor) createArchived(ctx context.Context) error {
	_, err := a.conn.Exec(ctx, "BEGIN READ WRITE") // a temporary table, also if sessions only read by default
	if err == nil {
		_, err = a.conn.Exec(ctx, "CREATE TEMPORARY TABLE "+archivedTable+
			` (source bigint, place bigint, id text COLLATE "C", type text, at text) ON COMMIT DROP`)
	}
	if sqlstate.Of(err) != sqlstate.NotPermitted {
		return asFault("server", err)
	}
	config := a.conn.Config()
	return &fault.Error{
		Kind: fault.Operator, Object: "database " + fault.Printable(config.Database),
		Err:  errors.New("the role may not create temporary tables, by which archived rows are sorted"),
		Next: "Let it.",
		Commands: []string{fmt.Sprintf("GRANT TEMPORARY ON DATABASE %s TO %s;", identifier.Quote(config.Database),
			identifier.Quote(config.User))},
	}
}

// reaches reports whether the file's youngest row is not older than a time.
func (a *auditor) reaches(ctx context.Context, f archiveFile, bound time.Time) (young bool, err error) {
	err = a.conn.QueryRow(ctx, "SELECT COALESCE($1::text::timestamptz >= $2, true)", f.last, bound).Scan(&young)
	return young, asFault("archive "+fault.Printable(f.path), err)
}

// copyArchive takes the file's rows into the table. Files have numbers, because a row that is in two of them, or in one
// and in the table, was archived by a run that ended before it had deleted the row.
func (a *auditor) copyArchive(ctx context.Context, f archiveFile, number int) (int64, error) {
	next, stop := iter.Pull2(a.archivedRows(f, number))
	defer stop()
	var bad error
	n, err := a.conn.CopyFrom(ctx, pgx.Identifier{archivedTable}, []string{"source", "place", "id", "type", "at"},
		pgx.CopyFromFunc(func() (row []any, err error) {
			row, bad, _ = next()
			return row, bad
		}))
	if bad != nil {
		return n, archiveFault(bad)
	}
	return n, asFault("archive "+fault.Printable(f.path), err)
}

// archivedRows gives the rows as the table has them.
func (a *auditor) archivedRows(f archiveFile, number int) iter.Seq2[[]any, error] {
	cols := a.o.Admin.Columns
	return func(yield func([]any, error) bool) {
		err := archive.Read(f.path, func(rel *pgoutput.Relation, row pgoutput.Tuple) error {
			values := []any{number, f.table}
			for _, name := range []string{cols.ID, cols.AggregateType, cols.Timestamp} {
				i := slices.IndexFunc(rel.Columns, func(c pgoutput.Column) bool { return c.Name == name })
				switch {
				case i >= 0 && row[i].Kind == pgoutput.Text:
					values = append(values, string(row[i].Data))
				case i >= 0 || name == cols.AggregateType && !a.o.chooses():
					values = append(values, nil)
				default:
					return fmt.Errorf("its rows have no column %s", identifier.Quote(name))
				}
			}
			if !yield(values, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

var errStopped = errors.New("stopped")

// chooses reports whether a consumer handles some aggregate types only.
func (o *Options) chooses() bool {
	return slices.ContainsFunc(o.Ledgers, func(l Ledger) bool { return len(l.Types) > 0 })
}

// extendReach notes from when on the rows of a table are known, archived rows included.
func (a *auditor) extendReach(ctx context.Context, table int, older bool, bound time.Time) error {
	var oldest *time.Time
	err := a.conn.QueryRow(ctx, "SELECT min(at::timestamptz) FILTER (WHERE isfinite(at::timestamptz)) FROM "+
		archivedTable+" WHERE place = $1", table).Scan(&oldest)
	if err != nil {
		return postgres.QueryFault("server", err)
	}
	if oldest != nil && (a.reach[table].IsZero() || oldest.Before(a.reach[table])) {
		a.reach[table] = *oldest
	}
	if older && (a.reach[table].IsZero() || bound.Before(a.reach[table])) {
		a.reach[table] = bound
	}
	return nil
}

func archiveFault(err error) error {
	return &fault.Error{
		Kind: fault.Operator, Object: "--archive", Err: err, Next: "Take the file and its manifest from a copy.",
	}
}
