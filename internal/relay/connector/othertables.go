package connector

import (
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// meet prepares the router for a relation's rows, and reports whether they are passed over.
func (r *reader) meet(rel *pgoutput.Relation) (foreign bool, err error) {
	if rel != r.relation {
		if err := r.c.cfg.Router.Prepare(rel); err != nil {
			return false, err
		}
	}
	return r.passesOver(rel), nil
}

// passesOver reports whether a row belongs to a table that is not an outbox, and is passed over: a publication, above
// all one FOR ALL TABLES, may contain more than the connector was configured to read. Being unnamed in the
// configuration is not enough for that: an outbox table that was renamed, or a partition published under its own name,
// is still the outbox, and its rows must not be lost. So a table that has an outbox's columns is one.
func (r *reader) passesOver(rel *pgoutput.Relation) bool {
	if rel == r.relation {
		return r.foreign
	}
	r.relation, r.foreign = rel, r.isForeign(rel)
	return r.foreign
}

// strangersAgain is how long the log keeps quiet about further tables that are passed over.
const strangersAgain = time.Minute

// isForeign reports whether the rows of a table are passed over. The stream asks it for each relation that it receives,
// and forgets all but that of a foreign one: a database in which tables come and go has no end of them. So the log
// names one of them now and then, with how many there were.
func (r *reader) isForeign(rel *pgoutput.Relation) bool {
	if r.configured(rel) || r.c.cfg.Router.Fits(rel) {
		return false
	}
	r.strangers.more++
	if now := time.Now(); now.Sub(r.strangers.at) >= strangersAgain {
		r.c.log.Warn("publication sends rows of tables that are neither configured nor an outbox; passing over them",
			zap.String(logkey.Publication, r.c.cfg.Replication.Publication),
			zap.Stringer(logkey.Object, identifier.Table{Schema: rel.Namespace, Name: rel.Name}),
			zap.Uint64(logkey.Tables, r.strangers.more))
		r.strangers = warnings{at: now}
	}
	return true
}

// configured takes every table for configured if none is named.
func (r *reader) configured(rel *pgoutput.Relation) bool {
	for _, t := range r.c.cfg.Replication.Tables {
		if t.Schema == rel.Namespace && t.Name == rel.Name {
			return true
		}
	}
	return len(r.c.cfg.Replication.Tables) == 0 && len(r.c.cfg.Replication.Messages) == 0
}
