package gap

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Evidence is what decides which rows are in the stream, as identities that change with every change of it: DROP TABLE
// and ADD TABLE, SET TABLE, a row filter and a column list make a new row of pg_publication_rel, SET (publish = …) a
// new version of the publication's row. VACUUM in all its forms keeps both; so do ANALYZE, CLUSTER, REINDEX, grants,
// comments and ALTER TABLE. Oids and versions mean something in one cluster only.
type Evidence struct {
	Publication uint32 `json:"publication"` // oid; 0: there is none
	Version     string `json:"version"`     // xmin of the row
	Owner       uint32 `json:"owner"`
	All         bool   `json:"all"` // FOR ALL TABLES

	Relations map[string]Relation `json:"relations"` // by oid: the outbox tables and all below them

	Kafka string `json:"kafka,omitempty"` // id of the cluster that is published to; empty: not known yet
	// Ends are where the logs of its partitions ended.
	Ends map[string][]int64 `json:"ends,omitempty"`
}

// Relation is a table that may hold rows of the outbox.
type Relation struct {
	Name string `json:"name"`
	// Link is the version of the row that makes it a partition or a child; empty for an outbox table itself.
	Link string `json:"link,omitempty"`
	// Entries are the oids of the publication's entries that hold it: of itself, of tables that it is a partition of,
	// and of their schemas.
	Entries []string `json:"entries"`
}

// evidenceSQL takes the publication's name, and the schemas and names of the tables. A child by INHERITS is published
// by an entry of its own only, a partition also by the entries of the tables above it.
const evidenceSQL = `
(WITH RECURSIVE tree AS (
  SELECT c.oid, c.relname, c.relnamespace, '' AS link,
         CASE WHEN c.relispartition THEN ARRAY(SELECT a.relid::oid FROM pg_catalog.pg_partition_ancestors(c.oid) a)
              ELSE ARRAY[c.oid] END AS up
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN unnest($2::text[], $3::text[]) AS w(s, t) ON w.s = n.nspname AND w.t = c.relname
  UNION
  SELECT c.oid, c.relname, c.relnamespace, i.xmin::text,
         CASE WHEN c.relispartition THEN c.oid || tree.up ELSE ARRAY[c.oid] END
    FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid)
SELECT jsonb_build_object('publication', p.oid::bigint, 'version', p.xmin::text, 'owner', p.pubowner::bigint,
    'all', p.puballtables,
    'relations', (SELECT coalesce(jsonb_object_agg(t.oid::text, jsonb_build_object('name', t.relname, 'link', t.link,
        'entries', to_jsonb(ARRAY(SELECT 'table ' || e.oid FROM pg_catalog.pg_publication_rel e
            WHERE e.prpubid = p.oid AND e.prrelid = ANY (t.up) ORDER BY e.oid)%s))), '{}') FROM tree t))
  FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_publication p ON p.pubname = $1::text)`

// schemaEntriesSQL is for 15 and later.
const schemaEntriesSQL = ` || ARRAY(SELECT 'schema ' || e.oid FROM pg_catalog.pg_publication_namespace e
            WHERE e.pnpubid = p.oid AND e.pnnspid IN (SELECT u.relnamespace FROM pg_catalog.pg_class u
              WHERE u.oid = ANY (t.up)) ORDER BY e.oid)`

// evidenceQuery is the scalar subquery for a server of the major version.
func evidenceQuery(major int) string {
	if major < 15 {
		return fmt.Sprintf(evidenceSQL, "")
	}
	return fmt.Sprintf(evidenceSQL, schemaEntriesSQL)
}

// Hides says, in a clause, by what rows that were written between the two may be missing from the stream; empty: by
// nothing. What only adds rows to the stream hides none, nor does what happens to rows that were written before.
//
// A new version of the publication's row together with another owner is taken for the change of the owner alone.
func (e Evidence) Hides(now Evidence) string {
	switch {
	case e.Publication != now.Publication:
		return "the publication was dropped and created again"
	case e.Version != now.Version && e.Owner == now.Owner:
		return "the options of the publication were changed"
	case e.All && now.All:
		return ""
	}
	known := map[string]bool{}
	for _, r := range e.Relations {
		for _, entry := range r.Entries {
			known[entry] = true
		}
	}
	var why []string
	for _, oid := range slices.Sorted(maps.Keys(now.Relations)) {
		r := now.Relations[oid]
		was, there := e.Relations[oid]
		kept := slices.ContainsFunc(r.Entries, func(entry string) bool { return slices.Contains(was.Entries, entry) })
		name := identifier.Quote(r.Name)
		switch {
		case there && !kept:
			why = append(why, fmt.Sprintf("table %s was taken out of the publication or its entry there was replaced",
				name))
		case there && was.Link != r.Link && was.Link != "" && r.Link != "":
			why = append(why, fmt.Sprintf("table %s was detached and attached again", name))
		case !there && !slices.ContainsFunc(r.Entries, func(entry string) bool { return known[entry] }):
			why = append(why, fmt.Sprintf("table %s is another one, or new, and entered the publication later, if "+
				"at all",
				name))
		}
	}
	return firstOf(why, "; ")
}

// same reports whether nothing at all differs.
func (e Evidence) same(now Evidence) bool {
	return e.Publication == now.Publication && e.Version == now.Version && e.Owner == now.Owner && e.All == now.All &&
		e.Kafka == now.Kafka && sameEnds(e.Ends, now.Ends) &&
		maps.EqualFunc(e.Relations, now.Relations, func(a, b Relation) bool {
			return a.Name == b.Name && a.Link == b.Link && slices.Equal(a.Entries, b.Entries)
		})
}
