package schemacheck

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/preview"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Rows is how the latest rows of a subject fit its schema. The rows of a subject are the rows that ask for its latest
// version.
type Rows struct {
	Tried   int    `json:"tried"`
	Misfits int    `json:"misfits"`
	EventID string `json:"event_id,omitempty"` // of the first that does not fit
	Misfit  string `json:"misfit,omitempty"`   // its member at fault, without a value
}

// Schemas has the proposed schemas for a router. It is used by one goroutine.
type Schemas struct {
	encoders map[string]*counting
	last     *counting // of the row that is being routed; nil: it has none of them
}

// NewSchemas makes a Schemas without schemas. Check puts them in.
func NewSchemas() *Schemas { return &Schemas{encoders: map[string]*counting{}} }

// Schema implements router.Schemas.
func (s *Schemas) Schema(subject []byte, version router.SchemaVersion) (router.Schema, router.SchemaAnswer) {
	e := s.encoders[string(subject)]
	if e == nil || version != router.LatestSchema {
		return router.Schema{}, router.SchemaNotAsked
	}
	s.last = e
	return router.Schema{Encoder: e}, router.SchemaKnown
}

// counting counts what its encoder is given.
type counting struct {
	router.Encoder
	Rows
	err error // of the last payload
}

// Append implements router.Encoder.
func (c *counting) Append(dst, message, document []byte) ([]byte, error) {
	out, err := c.Encoder.Append(dst, message, document)
	c.Tried, c.err = c.Tried+1, err
	return out, err
}

// others makes rows of other schemas bad ones, which count nowhere.
type others struct {
	router.Router
	schemas *Schemas
}

// Route implements router.Router.
func (o others) Route(rel *pgoutput.Relation, row pgoutput.Tuple, src router.Source) (*router.Record, error) {
	o.schemas.last = nil
	rec, err := o.Router.Route(rel, row, src)
	if errors.As(err, new(*router.UnresolvedSchema)) {
		err = &router.RowError{Reason: router.UnknownSchema}
	}
	return rec, err
}

// rows routes the last rows of each table.
func (s *Schemas) rows(ctx context.Context, o preview.Options, last int) error {
	o.Router = others{o.Router, s}
	_, err := preview.Rows(ctx, o, nil, last, func(r *preview.Record) error {
		e := s.last
		if e == nil || r.Bad == nil || r.Bad.Reason != router.PayloadDoesNotFit {
			return nil
		}
		e.Misfits++
		if e.Misfits == 1 {
			e.EventID, e.Misfit = r.Bad.EventID, e.err.Error()
		}
		return nil
	})
	return err
}
