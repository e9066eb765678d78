package setup

import (
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// writersWait are applications that wait for the lock of another session on an outbox table. The stream does not: it
// reads the log.
type writersWait struct {
	sessions int
	by       *postgres.Blocker // nil: none waits
}

// writersWait asks the server that writes, as far as one is known.
func (s servers) writersWait(ctx context.Context, cfg Config) (w writersWait, err error) {
	if s.primary == nil {
		return w, nil
	}
	if w.sessions, err = postgres.LookupWaiters(ctx, s.primary, cfg.Tables...); err != nil || w.sessions == 0 {
		return w, err
	}
	w.by, err = postgres.LookupBlocker(ctx, s.primary, cfg.Tables...)
	return w, err
}

func checkWriters(w writersWait) []preflight.Finding {
	if w.by == nil || w.sessions == 0 {
		return nil
	}
	waits := " waits"
	if w.sessions > 1 {
		waits = " wait"
	}
	return []preflight.Finding{preflight.Finding{
		Level: preflight.Warn, Subject: "table " + w.by.Table,
		Found: fmt.Sprintf("It is locked by %s, and %s for it.", w.by,
			human.Counted(w.sessions, "session", "sessions")+waits),
		Why: "Applications cannot write events. What was committed before is published: the stream needs no lock.",
	}.With(w.by.Remedy())}
}
