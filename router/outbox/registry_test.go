package outbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/rowtest"
)

// book has a few schemas, and no registry.
type book map[router.UnresolvedSchema]struct {
	router.Schema
	answer router.SchemaAnswer
}

func (b book) Schema(subject []byte, version router.SchemaVersion) (router.Schema, router.SchemaAnswer) {
	found := b[router.UnresolvedSchema{Subject: string(subject), Version: version}]
	return found.Schema, found.answer
}

func (b book) knows(subject string, version router.SchemaVersion, id int32, answer router.SchemaAnswer) book {
	b[router.UnresolvedSchema{Subject: subject, Version: version}] = struct {
		router.Schema
		answer router.SchemaAnswer
	}{router.Schema{ID: id}, answer}
	return b
}

func TestFrameBytes(t *testing.T) {
	known := book{}.knows("order.events-value", router.LatestSchema, 258, router.SchemaKnown).
		knows(":.eu:x/order.events", 3, 1<<31-1, router.SchemaKnown)
	for name, c := range map[string]struct {
		registry Registry
		version  string
		want     string // of the frame
	}{
		"the latest version": {
			Registry{Subject: "${topic}-value", Format: "avro"}, "1", "\x00\x00\x00\x01\x02",
		},
		"a version by its number": {
			Registry{Subject: ":.${column:tenant}:x/${topic}", VersionColumn: "event_version", Format: "json"},
			"3", "\x00\x7f\xff\xff\xff",
		},
		"the first message": {
			Registry{Subject: "${topic}-value", Format: "protobuf"}, "1", "\x00\x00\x00\x01\x02\x00",
		},
		"the second message": {
			Registry{Subject: "${topic}-value", Format: "protobuf", MessageIndexes: "1"},
			"1",
			"\x00\x00\x00\x01\x02\x02\x02",
		},
		"a nested message": {
			Registry{Subject: "${topic}-value", Format: "protobuf", MessageIndexes: "0, 64,1"},
			"1",
			"\x00\x00\x00\x01\x02\x06\x00\x80\x01\x02",
		},
		"a message that the row names": {
			Registry{
				Subject: "${topic}-value", Format: "protobuf", MessageIndexes: "9",
				MessageIndexesColumn: "event_version",
			}, "2,0", "\x00\x00\x00\x01\x02\x04\x04\x00",
		},
		"indexes that do not matter": {
			Registry{Subject: "${topic}-value", Format: "avro", MessageIndexes: "9"}, "1", "\x00\x00\x00\x01\x02",
		},
		"a message with an id from a column": {
			Registry{SchemaIDColumn: "event_version", Format: "protobuf", MessageIndexes: "1"},
			"7",
			"\x00\x00\x00\x00\x07\x02\x02",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.registry.Schemas = known
			r := formatRouter(t, func(cfg *Config) { cfg.Registry = c.registry })
			row := wideRow("eu", c.version)
			rec, err := r.Route(wideRelation(), row, rowtest.Source)
			require.NoError(t, err)
			require.Equal(t, c.want+string(row[4].Data), string(rec.Value))
			require.NotZero(t, rec.SchemaID)
		})
	}
}

// A row whose schema is not known is not a bad row; one whose schema the registry does not know is.
func TestUnresolvedSchema(t *testing.T) {
	known := book{}.knows("order.events-value", 8, 0, router.SchemaNoVersion).
		knows("order.events-value", router.LatestSchema, 0, router.SchemaNoSubject)
	r := formatRouter(t, func(c *Config) {
		c.Registry = Registry{
			Subject: "${topic}-value", VersionColumn: "event_version", Format: "avro", Schemas: known,
		}
	})
	route := func(version string) error {
		_, err := r.Route(wideRelation(), wideRow("eu", version), rowtest.Source)
		return err
	}
	var need *router.UnresolvedSchema
	require.ErrorAs(t, route("7"), &need)
	require.Equal(t, &router.UnresolvedSchema{Subject: "order.events-value", Version: 7}, need)
	require.ErrorContains(t, route("7"), `the id of subject "order.events-value", version 7, is not known`)

	require.Equal(t, router.UnknownSchema, rowtest.Reason(t, route("8")))
	require.ErrorContains(t, route("8"), `has no version 8 of subject "order.events-value"`)
	require.ErrorContains(t, route("latest"), `has no subject "order.events-value"`)
	for _, version := range []string{"", "0", "-1", "x", "2147483648"} {
		require.Equal(t, router.BadValue, rowtest.Reason(t, route(version)), version)
	}
	null := wideRow("eu", "1")
	null[len(null)-1] = pgoutput.Value{Kind: pgoutput.Null}
	_, err := r.Route(wideRelation(), null, rowtest.Source)
	require.Equal(t, router.BadValue, rowtest.Reason(t, err), "a version that is not named is not guessed")
	tombstone := wideRow("eu", "7")
	tombstone[4] = pgoutput.Value{Kind: pgoutput.Null}
	rec, err := r.Route(wideRelation(), tombstone, rowtest.Source)
	require.NoError(t, err, "a tombstone has no schema")
	require.Nil(t, rec.Value)

	known.knows("order.events-value", 7, 70, router.SchemaKnown)
	require.NoError(t, route("7"), "routed again, once it is known")
}

func TestSubjectOfRow(t *testing.T) {
	r := formatRouter(t, func(c *Config) { c.Registry = Registry{Subject: "${column:tenant}-value", Format: "json"} })
	for _, tenant := range []string{"", strings.Repeat("x", 1000)} {
		_, err := r.Route(wideRelation(), wideRow(tenant, "1"), rowtest.Source)
		require.Equal(t, router.BadValue, rowtest.Reason(t, err))
	}
	dots := formatRouter(t, func(c *Config) { c.Registry = Registry{Subject: "${column:tenant}", Format: "json"} })
	for _, tenant := range []string{".", ".."} { // no address can name it
		_, err := dots.Route(wideRelation(), wideRow(tenant, "1"), rowtest.Source)
		require.Equal(t, router.BadValue, rowtest.Reason(t, err))
	}
	_, err := r.Route(rowtest.Table(), plainRow(), rowtest.Source)
	require.Equal(t, router.MissingColumn, rowtest.Reason(t, err))
	_, err = r.Route(wideRelation(), wideRow(strings.Repeat("x", 994), "1"), rowtest.Source)
	require.True(t, errors.As(err, new(*router.UnresolvedSchema)), "%v", err)
}

func TestMessageIndexesOfRow(t *testing.T) {
	known := book{}.knows("order.events-value", router.LatestSchema, 1, router.SchemaKnown)
	r := formatRouter(t, func(c *Config) {
		c.Registry = Registry{
			Subject: "${topic}-value", Format: "protobuf", MessageIndexesColumn: "tenant", Schemas: known,
			MessageIndexes: "1",
		}
	})
	for _, text := range []string{"x", "1,", "-1", "2147483648", strings.Repeat("0,", 32) + "0"} {
		_, err := r.Route(wideRelation(), wideRow(text, "1"), rowtest.Source)
		require.Equal(t, router.BadValue, rowtest.Reason(t, err), text)
	}
	null := wideRow("", "1")
	null[len(null)-2] = pgoutput.Value{Kind: pgoutput.Null}
	rec, err := r.Route(wideRelation(), null, rowtest.Source)
	require.NoError(t, err)
	require.Equal(t, "\x00\x00\x00\x00\x01\x02\x02", string(rec.Value[:7]), "NULL: as it is configured")
}

func TestRegistryRefusesConfiguration(t *testing.T) {
	for part, g := range map[string]Registry{
		"an id comes from one of the two":   {Subject: "a", SchemaIDColumn: "a", Format: "avro"},
		"router.registry.message_indexes":   {Subject: "a", Format: "protobuf", MessageIndexes: "x"},
		"unknown placeholder \"${topics}\"": {Subject: "${topics}", Format: "avro"},
		"control character":                 {Subject: "a\nb", Format: "avro"},
		"is none of avro":                   {Subject: "a", Format: "thrift"},
	} {
		_, err := New(Config{Columns: DefaultColumns(), Topic: DefaultTopic, Registry: g})
		require.ErrorContains(t, err, part)
	}
	columns := DefaultColumns()
	columns.Type = ""
	_, err := New(Config{Columns: columns, Topic: DefaultTopic, Registry: Registry{Subject: "${type}", Format: "avro"}})
	require.ErrorContains(t, err, "router.registry.subject")
	_, err = New(Config{
		Columns: DefaultColumns(), Topic: DefaultTopic, Format: FormatEnvelope,
		Registry: Registry{Subject: "a", Format: "avro"},
	})
	require.ErrorContains(t, err, "router.registry.subject")
	_, err = New(Config{Columns: DefaultColumns(), Topic: "${topic}"})
	require.ErrorContains(t, err, "unknown placeholder", "a topic is not built from itself")
}

func TestSchemaAllocatesNothing(t *testing.T) {
	known := book{}.knows("order.events-value", 3, 258, router.SchemaKnown)
	r := formatRouter(t, func(c *Config) {
		c.Registry = Registry{
			Subject: "${topic}-value", VersionColumn: "event_version", Format: "protobuf", MessageIndexes: "1,2",
			Schemas: known,
		}
	})
	rel, row := wideRelation(), wideRow("eu", "3")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := r.Route(rel, row, rowtest.Source); err != nil {
			t.Fatal(err)
		}
	}))
}
