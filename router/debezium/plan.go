package debezium

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
	"github.com/cdc-outbox/cdc-outbox/router/internal/pgtype"
)

// column is a column of one relation with its converter. convert is nil if the table lacks the column, or if its type
// is one that Debezium leaves out of its records.
type column struct {
	layout.Field
	convert *pgtype.Converter
	schema  *connect.Schema // optional if the column may be NULL
}

// plan is how the rows of one relation become records.
type plan struct {
	layout.Table
	catalog router.Catalog

	id, key, payload, route                 column
	timestampColumn, schemaVersion, tracing column
	additional                              []additionalColumn

	idOut, keyOut, valueOut converter
	prefix                  string // of the envelope's schema name, up to the route value
}

type additionalColumn struct {
	column
	placement
	out converter // for headers
}

func (d *Router) planOf(rel *pgoutput.Relation) *plan {
	if d.last != nil && d.last.Rel == rel {
		return d.last
	}
	if p := d.plans[rel.OID]; p != nil && p.Rel == rel {
		d.last = p
		return p
	}
	return d.cachePlan(d.newPlan(rel, router.Catalog{}))
}

func (d *Router) cachePlan(p *plan) *plan {
	if len(d.plans) >= layout.MaxLayouts {
		clear(d.plans)
	}
	d.plans[p.Rel.OID], d.last = p, p
	return p
}

// Prepare builds the plan with the catalogs' information.
func (d *Router) Prepare(rel *pgoutput.Relation) error {
	if p := d.plans[rel.OID]; p != nil && p.Rel == rel {
		return nil
	}
	var c router.Catalog
	if d.cfg.Catalog != nil && d.needsCatalog(rel) {
		var err error
		if c, err = d.cfg.Catalog(rel); err != nil {
			return err
		}
	}
	d.cachePlan(d.newPlan(rel, c))
	return nil
}

// needsCatalog reports whether the plan for rel depends on the catalog. If not, no connection is opened for it.
func (d *Router) needsCatalog(rel *pgoutput.Relation) bool {
	for _, kind := range []string{d.cfg.ValueConverter, d.cfg.KeyConverter, d.cfg.HeaderConverter} {
		if kind == converterJSONSchema {
			return true
		}
	}
	for i := range rel.Columns {
		if rel.Columns[i].TypeOID >= pgtype.FirstNormalOID {
			return true
		}
	}
	return false
}

func (d *Router) newPlan(rel *pgoutput.Relation, catalog router.Catalog) *plan {
	c := d.cfg.Columns
	p := &plan{Table: layout.Of(rel), catalog: catalog}
	p.Table.Require(d.needs)
	p.id = d.require(p, "id", c.ID)
	p.Table.ID = p.id.Field
	p.route = d.require(p, "route", c.Route)
	p.key = d.require(p, "key", c.Key)
	p.payload = d.require(p, "payload", c.Payload)
	p.timestampColumn = column{Field: layout.Field{Index: -1}}
	if c.Timestamp != "" {
		p.timestampColumn = d.require(p, "timestamp", c.Timestamp)
	}
	p.Table.Timestamp = p.timestampColumn.Field
	if c.SchemaVersion != "" && d.envelope {
		p.schemaVersion = d.require(p, "schema_version", c.SchemaVersion)
		p.mustBe(p.schemaVersion, connect.Int32, "schema_version", "integer")
	}
	p.tracing = d.column(p, c.Tracing)
	p.mustBe(p.route, connect.String, "route", "text")
	d.placeAdditional(p)
	if p.Missing != nil {
		return p
	}
	p.idOut = newConverter(d.cfg.HeaderConverter, p.id.schema)
	p.keyOut = newConverter(d.cfg.KeyConverter, p.key.schema)
	p.valueOut = newConverter(d.cfg.ValueConverter, p.payload.schema)
	p.prefix = d.cfg.TopicPrefix + "." + p.Name + "."
	return p
}

// column finds a column by name and compiles the conversion of its values.
func (d *Router) column(p *plan, name string) column {
	c := column{Field: layout.Field{Index: -1, Name: name}}
	if name == "" {
		return c
	}
	if c.Index = p.Rel.Column(name); c.Index < 0 {
		return c
	}
	r := &p.Rel.Columns[c.Index]
	c.Oid = r.TypeOID
	lookup := func(oid uint32) (router.PostgresType, bool) {
		t, ok := p.catalog.Types[oid]
		return t, ok
	}
	if c.convert = d.types.New(r.TypeOID, r.Modifier, lookup); c.convert == nil {
		return c
	}
	nullable, known := p.catalog.Nullable[name]
	if !known {
		nullable = !r.Key
	}
	c.schema = c.convert.Schema
	if nullable {
		c.schema = c.schema.AsOptional(true)
	}
	return c
}

func (d *Router) require(p *plan, role, name string) column {
	c := d.column(p, name)
	if c.convert == nil {
		p.miss("columns."+role, name, "Debezium converts no values of its type")
	}
	return c
}

// mustBe makes rows bad if a column has a type that Debezium's task would fail with.
func (p *plan) mustBe(c column, t connect.Type, key, wanted string) {
	if c.convert != nil && c.convert.Schema.Type != t {
		if key != "additional" {
			key = "columns." + key
		}
		p.miss(key, c.Name, fmt.Sprintf("the column is not of type %s", wanted))
	}
}

func (p *plan) miss(key, column, detail string) {
	if p.Missing != nil {
		return
	}
	p.Missing = &router.RowError{
		Reason: router.MissingColumn, Table: p.Name, Column: column, Detail: detail,
		Remedy: fmt.Sprintf("Set router.debezium.%s to the right column, or correct the table or the publication's "+
			"column list.", key),
	}
}
