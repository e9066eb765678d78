package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// checkPublication looks whether every row of every outbox table comes through with every column that is read.
// st.Publication must exist.
func checkPublication(cfg Config, st state) []preflight.Finding {
	p, subject := st.Publication, cfg.PublicationSubject()
	onlyInserts := fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert');", identifier.Quote(cfg.Publication))
	var out []preflight.Finding
	if !p.Insert {
		out = append(out, preflight.Finding{
			Level: preflight.Fail, Subject: subject, Found: "It does not publish inserts.",
			Why: "New rows of the outbox are never sent.",
		}.With(fault.Do("Let it publish inserts.", onlyInserts).Then(postgres.Republish())))
	}
	for _, t := range st.Tables {
		switch {
		case t.Exists:
			out = append(out, checkPublished(cfg, st, t)...)
		case !p.AllTables:
			out = append(out, preflight.Finding{
				Level: preflight.Fail, Subject: subject,
				Found: fmt.Sprintf("It does not hold %s, which does not exist.", t.Table),
				Why: "Dropping a table takes it out of every publication; a re-created table is not in it, and " +
					"what it takes before it is added is never sent.",
			}.With(missingTableRemedy(cfg, st)))
		}
	}
	if len(out) == 0 {
		out = append(out, preflight.Fine(subject, "It publishes inserts into the outbox, whole."))
	}
	if p.Update || p.Delete || p.Truncate {
		out = append(out, preflight.Finding{
			Level: preflight.Warn, Subject: subject, Found: "It publishes more than inserts.",
			Why: "Pruning the outbox sends a message for each deleted row, and updates and deletes fail on a " +
				"table without replica identity.",
			Remedy:   "Let it publish only inserts.",
			Commands: []string{onlyInserts},
		})
	}
	return append(out, checkForeignTables(cfg, st)...)
}

// checkPublished judges one table. Rows that were written while the publication hid them stay hidden: each row is
// decoded with the publication as it was when the row was written.
func checkPublished(cfg Config, st state, t postgres.OutboxTable) []preflight.Finding {
	p := st.Publication
	if _, ok := p.Table(t.Table); !ok && t.Partitioned() && !p.ViaRoot && publishesAny(p, t.Parts) {
		f := preflight.Finding{
			Level: preflight.Fail, Subject: "table " + t.Table.String(),
			Found: fmt.Sprintf("%s publishes it under the names of its partitions.", cfg.PublicationSubject()),
			Why:   "The rows come as rows of tables that are not configured and would be passed over.",
		}
		return []preflight.Finding{f.With(fault.Do("Publish it under the name of the table.",
			fmt.Sprintf("ALTER PUBLICATION %s SET (publish_via_partition_root = true);",
				identifier.Quote(cfg.Publication))))}
	}
	var out []preflight.Finding
	if t.Persistence == "p" { // otherwise see checkLogged: FOR ALL TABLES leaves it out, and ADD TABLE is refused
		out = checkRelation(cfg, st, t, t.Table)
	}
	if t.Chunks != "" {
		return append(out, checkHypertable(cfg, st, t))
	}
	for _, child := range t.Inheriting() {
		if child.Logged {
			out = append(out, checkRelation(cfg, st, t, child.Table)...)
		}
	}
	return out
}

// checkRelation judges the table, or one that inherits from it, under its own name in the publication.
func checkRelation(cfg Config, st state, t postgres.OutboxTable, rel identifier.Table) []preflight.Finding {
	pub, only, it, of := identifier.Quote(cfg.Publication), rel.SQL(), "it", ""
	if len(t.Inheriting()) > 0 { // without ONLY the command is for all of them, and some may be right already
		only = "ONLY " + only
	}
	if rel != t.Table {
		it = fmt.Sprintf("table %s, which inherits from it", rel)
		of = " of " + it + ","
	}
	fail := func(found, why string, r fault.Remedy) []preflight.Finding {
		f := preflight.Finding{
			Level: preflight.Fail, Subject: "table " + t.Table.String(), Found: found, Why: why,
		}
		return []preflight.Finding{f.With(r)}
	}
	pt, ok := st.Publication.Table(rel)
	add := fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s;", pub, only)
	switch {
	case !ok && rel != t.Table:
		return fail(fmt.Sprintf("Table %s inherits from it and is not in %s.", rel, cfg.PublicationSubject()),
			"Queries of the outbox return its rows, and the stream does not have them. A table that inherits enters "+
				"a publication only by a command of its own.",
			fault.Do("Add it, and each later one in the transaction that creates it. A partitioned table does not "+
				"need that.", add).Then(postgres.Republish()))
	case !ok:
		return fail(fmt.Sprintf("It is not in %s.", cfg.PublicationSubject()),
			"Its rows are not sent. Rows written before it is added are never sent: publish those again from "+
				"the table.", fault.Do("Add it.", add).Then(postgres.Republish()))
	}
	readd := fault.Do("Remove the table from the publication and add it whole.", fmt.Sprintf("BEGIN; ALTER "+
		"PUBLICATION %s DROP TABLE %s; ALTER PUBLICATION %[1]s ADD TABLE %[2]s; COMMIT;", pub, only))
	set := st.Filters[t.Table]
	shared := len(set.Shares) > 1 && pt.RowFilter == set.Shares[0].Filter
	if pt.RowFilter != "" && !shared {
		return fail(fmt.Sprintf("%s has a row filter on %s: WHERE %s.", cfg.PublicationSubject(), it, pt.RowFilter),
			"Rows that do not match are never sent, without notice.", readd.Then(postgres.Republish()))
	}
	if hidden, keys := hiddenColumns(cfg.Columns, pt, t); len(hidden) > 0 {
		return fail(fmt.Sprintf("The column list%s in %s leaves out %s.", of, cfg.PublicationSubject(),
			strings.Join(hidden, ", ")),
			fmt.Sprintf("Records are built from them (%s), and the rows come without: rows written until it is fixed "+
				"stay without.", strings.Join(keys, ", ")),
			readd.Then(fault.Do("Then start the connector again. It halts at a row without a column that it needs; "+
				"others are in Kafka without theirs, and repair does not miss them: publish them again with "+
				"`cdc-outbox replay --since`, from the begin of the gap on.")))
	}
	if shared && rel == t.Table {
		return checkFilters(cfg, set, t)
	}
	return nil
}

func publishesAny(p postgres.Publication, parts []postgres.Part) bool {
	return slices.ContainsFunc(parts, func(t postgres.Part) bool { _, ok := p.Table(t.Table); return ok })
}

// hiddenColumns returns the needed columns that the table has and the publication does not send, and the settings that
// name them. Also a column that records can omit is needed: without it they say something else than the row.
func hiddenColumns(m postgres.Columns, pt postgres.PublishedTable, t postgres.OutboxTable) (hidden, keys []string) {
	if pt.Columns == nil {
		return nil, nil
	}
	for _, want := range m.Needed {
		c, has := t.Column(want.Name)
		if !has || c.Generated || slices.Contains(pt.Columns, want.Name) {
			continue
		}
		if name := identifier.Quote(want.Name); !slices.Contains(hidden, name) {
			hidden = append(hidden, name)
		}
		if !slices.Contains(keys, want.Key) {
			keys = append(keys, want.Key)
		}
	}
	return hidden, keys
}

// checkForeignTables warns of rows that are sent only to be passed over.
func checkForeignTables(cfg Config, st state) []preflight.Finding {
	p := st.Publication
	f := preflight.Finding{
		Level: preflight.Warn, Subject: cfg.PublicationSubject(),
		Why: "Their rows are decoded, sent and passed over; a table that has all of the outbox's columns is " +
			"relayed like one.",
	}
	if p.AllTables {
		f.Found = "It publishes every table of the database."
		f.Remedy = "Make one for the outbox alone. A publication FOR ALL TABLES cannot be narrowed, and the one a " +
			"slot reads must not be dropped while rows are unread."
		return []preflight.Finding{f}
	}
	var foreign, listed []string
	for _, pt := range p.Tables {
		if !slices.Contains(cfg.Tables, pt.Table) && !st.isPart(pt.Table) && !st.holdsChunks(pt.Table.Schema) {
			foreign = append(foreign, pt.Table.SQL())
			if pt.Listed {
				listed = append(listed, pt.Table.SQL())
			}
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	const shown = 5
	names := strings.Join(foreign[:min(len(foreign), shown)], ", ")
	if len(foreign) > shown {
		names += ", …"
	}
	f.Found = fmt.Sprintf("It publishes %d tables that are not configured: %s.", len(foreign), names)
	f.Remedy = "Remove them from the publication."
	if len(listed) < len(foreign) { // DROP TABLE takes only what ADD TABLE has added
		f.Remedy += " Tables that come with their schema, or as partitions, cannot be removed one by one: in one " +
			"transaction, add the outbox by its name, and drop the schema or the partitioned table from the " +
			"publication."
	}
	if len(listed) > 0 {
		f.Commands = []string{fmt.Sprintf("ALTER PUBLICATION %s DROP TABLE %s;", identifier.Quote(cfg.Publication),
			strings.Join(listed, ", "))}
	}
	return []preflight.Finding{f}
}

func (st state) isPart(t identifier.Table) bool {
	return slices.ContainsFunc(st.Tables, func(info postgres.OutboxTable) bool {
		return slices.ContainsFunc(info.Parts, func(p postgres.Part) bool { return p.Table == t })
	})
}

// holdsChunks reports whether the schema has to be published as a whole.
func (st state) holdsChunks(schema string) bool {
	return slices.ContainsFunc(st.Tables, func(info postgres.OutboxTable) bool { return info.Chunks == schema })
}
