package setup

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
)

// CheckPublished looks, while a stream is open, for what makes rows silently absent from it: a table that left the
// publication, was dropped or was re-created under its name, a filter, a hidden column, a partition whose rows never
// reach the WAL, a publication or slot that no longer exists. What the stream itself shows (a column that is missing
// from a row) is none of its business. Errors are as Ensure's.
func CheckPublished(ctx context.Context, dsn string, cfg Config) error {
	_, err := CheckRunning(ctx, dsn, cfg, nil)
	return err
}

// Running is what a check of a running stream finds besides an error.
type Running struct {
	Harm   []preflight.Finding // what harms others: commits that wait, events from another relay as well
	Gaps   []gap.Gap           // the open ones
	Looked bool                // Gaps are known
	Why    error               // why they are not; nil if there is no table for them
}

// CheckRunning is CheckPublished that also returns the rest of what it finds, and keeps the account of gaps. p may be
// nil.
func CheckRunning(ctx context.Context, dsn string, cfg Config, p gap.Publisher) (r Running, err error) {
	cfg = cfg.WithDefaults().withoutExtras()
	ctx, cancel := cfg.look(ctx)
	defer cancel()
	err = withAdminConn(ctx, dsn, cfg, func(conn *pgx.Conn) error {
		st, err := readState(ctx, conn, cfg)
		if err != nil {
			return postgres.QueryFault("catalog", err)
		}
		st.Relays = lookupOtherRelays(ctx, conn, cfg)
		r.Harm = append(checkSynchronous(cfg, st), checkOtherRelays(cfg, st)...)
		if pair := checkPair(cfg, st); len(pair) > 0 {
			return preflight.FirstFailure(pair)
		}
		hides := preflight.FirstFailure(checkHidden(cfg, st))
		r.lookAtGaps(ctx, conn, cfg, look{hides: hides, publisher: p})
		if err := preflight.FirstFailure(checkSlot(cfg, st)); err != nil {
			return err
		}
		return hides
	})
	return r, err
}

// look bounds a check of a server that may have stopped answering without a word. The next one has a new connection.
func (cfg Config) look(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 3*cfg.ConnectTimeout)
}

// checkHidden finds what hides rows from the stream as things are now.
func checkHidden(cfg Config, st state) []preflight.Finding {
	out := append(checkMissing(cfg, st), checkAllLogged(st)...)
	return append(out, checkPublication(cfg, st)...)
}

// LookBefore keeps the account of gaps at a start, before anything is streamed.
func LookBefore(ctx context.Context, dsn string, cfg Config, p gap.Publisher) (r Running, err error) {
	cfg = cfg.WithDefaults().withoutExtras()
	ctx, cancel := cfg.look(ctx)
	defer cancel()
	err = withAdminConn(ctx, dsn, cfg, func(conn *pgx.Conn) error {
		r.lookAtGaps(ctx, conn, cfg, look{starts: true, publisher: p})
		return nil
	})
	return r, err
}

// look is what an account of gaps has to know.
type look struct {
	hides     error // why rows are missing from the stream as things are now
	starts    bool  // nothing is streamed yet
	publisher gap.Publisher
}

// lookAtGaps looks where the account is written: on the primary.
func (r *Running) lookAtGaps(ctx context.Context, conn *pgx.Conn, cfg Config, l look) {
	t, why := gap.Of(cfg.Objects), ""
	t.Publisher = l.publisher
	if l.hides != nil {
		why, _ = fault.Split(l.hides)
	}
	r.Why = withPrimary(ctx, conn, cfg, func(s servers) error {
		if s.primary == nil || t.Name.Name == "" {
			return nil
		}
		info, err := lookupGaps(ctx, s.primary, cfg)
		if err != nil || !info.Exists {
			return err
		}
		r.Gaps, err = t.Look(ctx, s.primary, why, l.starts)
		r.Looked = err == nil
		return err
	})
}
