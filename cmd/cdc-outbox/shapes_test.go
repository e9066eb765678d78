package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// shape is a form that an outbox table can have, or its place in the publication.
type shape struct {
	name  string // of the table, as SQL has it
	since int    // the version of Postgres that has it
	list  string // columns, after the table's name in the publication

	ddl  string   // besides the table itself
	into []string // relations besides the table that hold its rows

	hide   string // hides from the stream the rows that are written from then on
	hidden string // the relation that such a row is written into, if it is not the table
	found  string // what run, check and a snapshot say then
}

const shapeColumns = ` (id text NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
	event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz NOT NULL DEFAULT now(), note text)`

var (
	partitioned = shape{
		name: "public.parted",
		ddl: `CREATE TABLE parted_a PARTITION OF parted FOR VALUES IN ('parted old', 'parted new');
			CREATE TABLE parted_b PARTITION OF parted FOR VALUES IN ('parted_b old', 'parted_b new')`,
		into:   []string{"parted_b"},
		hide:   `CREATE UNLOGGED TABLE parted_c PARTITION OF parted FOR VALUES IN ('parted_c hidden')`,
		hidden: "parted_c", found: "Its partition public.parted_c is unlogged.",
	}
	inherits = shape{
		name: "public.parent", ddl: `CREATE TABLE child () INHERITS (parent)`, into: []string{"child"},
		hide:   `CREATE TABLE grandchild () INHERITS (child)`,
		hidden: "grandchild", found: "Table public.grandchild inherits from it and is not in publication",
	}
)

// shapeSet are shapes that one publication holds together.
type shapeSet struct {
	since    int
	publish  string // FOR …; empty: FOR TABLE with each table
	policies bool   // rows are hidden from the role of the commands, and from no log
	shapes   []shape
}

var shapeSets = map[string]shapeSet{
	"FOR TABLE": {shapes: []shape{
		{name: "public.plain", hide: `ALTER PUBLICATION NAME_ DROP TABLE plain`, found: "It is not in publication"},
		partitioned,
		inherits,
		{
			name: `"Shop"."Out ""box"`, hide: `ALTER PUBLICATION NAME_ DROP TABLE "Shop"."Out ""box"`,
			found: "It is not in publication",
		},
		{
			name: "public.filtered", since: 15, hide: `ALTER PUBLICATION NAME_ DROP TABLE filtered;
				ALTER PUBLICATION NAME_ ADD TABLE filtered WHERE (aggregate_type = 'bills')`,
			found: "has a row filter on it: WHERE (aggregate_type = 'bills'::text).",
		},
		{
			name: "public.listed", since: 15,
			list: "(id, aggregate_type, aggregate_id, event_type, payload, headers, created_at)",
			hide: `ALTER PUBLICATION NAME_ DROP TABLE listed; ALTER PUBLICATION NAME_ ADD TABLE listed
				(id, aggregate_type, aggregate_id, event_type, payload, created_at)`,
			found: `leaves out "headers".`,
		},
	}},
	"FOR ALL TABLES": {publish: "FOR ALL TABLES", shapes: []shape{
		{name: "public.plain", hide: `ALTER TABLE plain SET UNLOGGED`, found: "It is unlogged."},
		partitioned,
		{
			name: "public.parent", ddl: `CREATE TABLE child () INHERITS (parent)`, into: []string{"child"},
			hide:   `CREATE UNLOGGED TABLE grandchild () INHERITS (child)`,
			hidden: "grandchild", found: "Its child public.grandchild is unlogged.",
		},
	}},
	"FOR TABLES IN SCHEMA": {since: 15, publish: `FOR TABLES IN SCHEMA public, "Shop"`, shapes: []shape{
		{name: "public.plain", hide: `ALTER TABLE plain SET UNLOGGED`, found: "It is unlogged."},
		partitioned,
		{
			name: "public.parent", ddl: `CREATE TABLE child () INHERITS (parent)`, into: []string{"child"},
			hide:   `CREATE TABLE other.grandchild () INHERITS (child)`,
			hidden: "other.grandchild", found: "Table other.grandchild inherits from it and is not in publication",
		},
		{
			name: `"Shop"."Out ""box"`, hide: `ALTER PUBLICATION NAME_ DROP TABLES IN SCHEMA "Shop"`,
			found: "It is not in publication",
		},
	}},
	"row security": {policies: true, shapes: []shape{
		{name: "public.plain", hide: `ALTER TABLE plain ENABLE ROW LEVEL SECURITY`, found: "Row security applies"},
		{
			name: partitioned.name, ddl: partitioned.ddl + `; CREATE TABLE parted_c PARTITION OF parted DEFAULT`,
			into: partitioned.into, hide: `ALTER TABLE parted ENABLE ROW LEVEL SECURITY`, found: "Row security applies",
		},
	}},
}

// TestShapes: of each shape of the table, run, snapshot, check, repair, find, replay, audit and prune see each row, and
// once; where rows are hidden, run, check and a snapshot name the shape, the other commands leave no row out or refuse,
// and after the printed remedies every command sees all of them.
//
// Bug (rows): `find` said of an event that it was never committed where row security kept it from reading the table.
// Cost: an event taken for rolled back that was in the table.
func TestShapes(t *testing.T) {
	t.Parallel()
	for name, set := range shapeSets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testkit.Postgres(t)
			if db.Major() < set.since {
				t.Skip("not in this version")
			}
			b := newShapesBed(t, db, set)
			connector := b.begin()
			if set.policies {
				require.Equal(t, 0, connector.stop(syscall.SIGTERM))
			}
			b.hideRows()
			if !set.policies {
				b.requireNamed(connector)
			}
			remedies := b.lookWhileHidden()
			if set.policies {
				connector = start(t, b.env)
				b.requireOnce("orders.events") // policies hide nothing from the log
				require.Equal(t, 0, connector.stop(syscall.SIGTERM))
			}
			for _, sql := range remedies {
				b.db.Exec(t, sql)
			}
			b.lookWhole()
		})
	}
}

// shapesBed has a table of each shape, and knows their rows.
type shapesBed struct {
	*bed
	shapeSet
	ids    []string
	of     map[string]int // how many of them a shape's table has, by its name
	hidden []string
}

func newShapesBed(t *testing.T, db *testkit.Database, set shapeSet) *shapesBed {
	b := &shapesBed{bed: newBed(t, db, "orders.events", "replayed"), shapeSet: set, of: map[string]int{}}
	b.shapes = slices.DeleteFunc(slices.Clone(set.shapes), func(s shape) bool { return db.Major() < s.since })
	db.Exec(t, `CREATE SCHEMA "Shop"; CREATE SCHEMA other; CREATE TABLE processed_events (consumer text COLLATE "C",
		event_id text COLLATE "C", status text, claimed_at timestamptz, completed_at timestamptz,
		PRIMARY KEY (consumer, event_id))`)
	var names, entries []string
	for _, s := range b.shapes {
		partitioned := ""
		if strings.Contains(s.ddl, "PARTITION OF") {
			partitioned = " PARTITION BY LIST (id)"
		}
		db.Exec(t, "CREATE TABLE "+s.name+shapeColumns+partitioned+";"+s.ddl)
		names, entries = append(names, s.name), append(entries, s.name+s.list)
		b.insert(s, "old")
	}
	publish := cmp.Or(set.publish, "FOR TABLE "+strings.Join(entries, ", "))
	db.Exec(t, fmt.Sprintf(`CREATE PUBLICATION %q %s WITH (publish = 'insert', publish_via_partition_root = true)`,
		db.Publication, publish))
	b.env = append(b.env, "CDC_OUTBOX_POSTGRES_TABLES="+strings.Join(names, ","),
		"CDC_OUTBOX_POSTGRES_SNAPSHOT=initial")
	return b
}

// insert writes a row into each relation of a shape.
func (b *shapesBed) insert(s shape, word string) {
	for _, into := range append([]string{s.name}, s.into...) {
		b.insertInto(s, into, word)
	}
}

// insertInto writes a row whose id is the relation's name and a word.
func (b *shapesBed) insertInto(s shape, into, word string) (id string) {
	name := into[strings.LastIndex(into, ".")+1:]
	id = strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`) + " " + word
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO %s VALUES ('%s', 'orders', 'k', 'created', '{}', '{"a": "b"}')`, into, id))
	b.ids = append(b.ids, id)
	b.of[s.name]++
	return id
}

func (b *shapesBed) hideRows() {
	for _, s := range b.shapes {
		b.db.Exec(b, strings.ReplaceAll(s.hide, "NAME_", `"`+b.db.Publication+`"`))
		b.hidden = append(b.hidden, b.insertInto(s, cmp.Or(s.hidden, s.name), "hidden"))
	}
}

// requireOnce waits until a topic has each row once.
func (b *shapesBed) requireOnce(topic string) {
	b.Helper()
	var got []string
	for _, r := range b.records(topic, int64(len(b.ids))) {
		got = append(got, header(r, "id"))
	}
	require.ElementsMatch(b, b.ids, got)
}
