package replay

import (
	"context"
	"iter"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Source gives rows in the order in which they are published, from the state's place on. A row is valid until the
// next one is asked for.
type Source interface {
	Rows(ctx context.Context) iter.Seq2[Row, error]
}

// Row is a row of the outbox. Without a relation it is a mark: the rows before it are published first, then the state
// moves to the cursor.
type Row struct {
	Relation *pgoutput.Relation
	Tuple    pgoutput.Tuple
	Cursor   Cursor // nil if the source cannot go on after the row
}

// Cursor is a place in a source. Everything before it is acknowledged by Kafka.
type Cursor interface {
	moveTo(s *State)
}

// endOf is the cursor after the last row of one of several sources.
type endOf struct{}

func (endOf) moveTo(s *State) { s.Source, s.Key, s.FileRows = s.Source+1, nil, 0 }
