package preview

import (
	"context"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Stream gives the records of the rows that are committed from now on, until ctx ends. It reads through a temporary
// slot: the relay's slot does not move, and nothing is left. ready is called when the slot exists; rows that are
// committed afterwards are given.
func Stream(ctx context.Context, o Options, ready func(slot string), give func(*Record) error) error {
	s := &stream{Options: o, give: give}
	t := replication.Temporary{
		DSN: o.DSN, Publication: o.Admin.Publication, Messages: len(o.Admin.Messages) > 0,
		Ready: ready, Take: s.handleMessage,
	}
	return t.Run(ctx)
}

type stream struct {
	Options
	give func(*Record) error

	relation *pgoutput.Relation // of the last row
	foreign  bool               // it is not an outbox
	begin    pgoutput.Begin
	index    uint32
	position []byte // scratch
}

func (s *stream) handleMessage(m *pgoutput.Message) error {
	switch m.Kind {
	case pgoutput.KindBegin:
		s.begin, s.index = m.Begin, 0
	case pgoutput.KindInsert:
		return s.row(m.Relation, m.Tuple)
	case pgoutput.KindLogicalMessage:
		if slices.Contains(s.Admin.Messages, m.Logical.Prefix) && m.Logical.Transactional {
			return s.message(&m.Logical)
		}
	}
	return nil
}

func (s *stream) row(rel *pgoutput.Relation, row pgoutput.Tuple) error {
	if rel != s.relation {
		if err := s.Router.Prepare(rel); err != nil {
			return err
		}
		s.relation, s.foreign = rel, !s.configured(rel) && !s.Router.Fits(rel)
	}
	if s.foreign {
		return nil
	}
	rec, err := s.Router.Route(rel, row, s.source())
	return s.hand(rel, rec, err)
}

func (s *stream) message(l *pgoutput.LogicalMessage) error {
	rel, row, err := s.Router.Message(l)
	source := s.source()
	var rec *router.Record
	if err == nil {
		if err := s.Router.Prepare(rel); err != nil {
			return err
		}
		rec, err = s.Router.Route(rel, row, source)
	}
	return s.hand(rel, rec, err)
}

// source gives the row its place, and counts it.
func (s *stream) source() router.Source {
	pos := offsets.Position{Commit: s.begin.CommitLSN, Index: s.index}
	s.position, _ = pos.AppendText(s.position[:0])
	s.index++
	return router.Source{Position: s.position, CommitTime: s.begin.CommitTime}
}

func (s *stream) hand(rel *pgoutput.Relation, rec *router.Record, err error) error {
	r, err := s.routed(identifier.Table{Schema: rel.Namespace, Name: rel.Name}.String(), rec, err)
	if err != nil {
		return err
	}
	r.Position = string(s.position)
	return s.give(r)
}

func (s *stream) configured(rel *pgoutput.Relation) bool {
	return slices.ContainsFunc(s.Admin.Tables, func(t identifier.Table) bool {
		return t.Schema == rel.Namespace && t.Name == rel.Name
	})
}
