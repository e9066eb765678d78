package router

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router/internal/pgtype"
)

// Source is a row's place in the log.
type Source struct {
	Position   []byte    // text of the row's position; becomes the position header, not copied. nil: no header
	CommitTime time.Time // of the row's transaction
}

// Router turns rows into records. Each preset is an implementation: package router/outbox builds our own records,
// package router/debezium the records of Debezium's event router. A Router is not safe for concurrent use, because it
// reuses its buffers from row to row.
type Router interface {
	// Prepare readies the router for a relation's rows, for which it may have to ask Postgres' catalogs, whose error it
	// returns. Route works without it, but knows less.
	Prepare(rel *pgoutput.Relation) error

	// Fits reports whether rel has every column that an event needs.
	Fits(rel *pgoutput.Relation) bool

	// Route returns the record of an inserted row. It finds columns by name in rel, once per *Relation. The Record and
	// its slices belong to the Router and to the row, and live until the next call. The error is a *RowError, or an
	// *UnresolvedSchema for a row that can be routed once its schema is known. In the steady state Route allocates
	// nothing.
	Route(rel *pgoutput.Relation, row pgoutput.Tuple, src Source) (*Record, error)

	// Message returns the content of a logical message as a row: a JSON object (docs/messages.md). The row belongs to
	// the Router and lives as long as the content, until the next call. The error is a *RowError; the row then has the
	// content as its payload and nothing else, for a dead letter.
	Message(l *pgoutput.LogicalMessage) (*pgoutput.Relation, pgoutput.Tuple, error)
}

// Catalog is the information of Postgres' catalogs about a table.
type Catalog struct {
	Types    map[uint32]PostgresType // types of columns without a fixed OID, and the types they consist of
	Nullable map[string]bool         // by column
}

// PostgresType is the catalogs' information about a type.
type PostgresType = pgtype.Info
