package connector

import (
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
)

// meet readies the router for a relation's rows, and tells whether they are passed over.
func (c *Connector) meet(rel *pgoutput.Relation) (foreign bool, err error) {
	if rel != c.reader.relation {
		if err := c.cfg.Router.Prepare(rel); err != nil {
			return false, err
		}
	}
	return c.foreign(rel), nil
}

// foreign tells whether a row belongs to a table that is no outbox, and is passed over: a publication, above all one FOR
// ALL TABLES, may hold more than the connector was told to read. Being unnamed in the configuration is not enough for
// that: an outbox table that was renamed, or a partition published under its own name, is still the outbox, and its
// rows must not be lost. So a table that has an outbox's columns is one.
func (c *Connector) foreign(rel *pgoutput.Relation) bool {
	r := &c.reader
	if rel == r.relation {
		return r.foreign
	}
	r.relation, r.foreign = rel, !c.configured(rel) && !c.cfg.Router.Fits(rel)
	if r.foreign && !r.warned[rel.OID] {
		if r.warned == nil {
			r.warned = map[uint32]bool{}
		}
		r.warned[rel.OID] = true
		c.log.Warn("The publication sends rows of a table that is not configured and no outbox; they are passed over",
			zap.String(telemetry.KeyPublication, c.cfg.Replication.Publication), zap.Stringer(telemetry.KeyObject, identifier.Table{Schema: rel.Namespace, Name: rel.Name}))
	}
	return r.foreign
}

// configured takes every table for configured where nothing is named.
func (c *Connector) configured(rel *pgoutput.Relation) bool {
	for _, t := range c.cfg.Replication.Tables {
		if t.Schema == rel.Namespace && t.Name == rel.Name {
			return true
		}
	}
	return len(c.cfg.Replication.Tables) == 0 && len(c.cfg.Replication.Messages) == 0
}
