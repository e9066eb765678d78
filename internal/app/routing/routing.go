// Package routing turns the configuration's section router into the configuration of the package router. The program
// and the conformance tests share it, so both take the same path from a file to a record.
package routing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/router/debezium"
	"github.com/cdc-outbox/cdc-outbox/router/derived"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// New builds the router of the configured preset. Rows whose schemas are not in ids cannot be routed; nil has none.
func New(c *config.Loaded, ids router.Schemas) (router.Router, error) { return build(c, "", ids) }

// NewTo builds a router that sends all rows to one topic, and that asks the schema registry while it routes, until ctx
// ends. An empty topic means the configured ones.
func NewTo(ctx context.Context, c *config.Loaded, topic string) (router.Router, error) {
	registry, err := Schemas(c, nil, nil)
	if err != nil {
		return nil, err
	}
	if registry == nil {
		return build(c, topic, nil)
	}
	r, err := build(c, topic, registry)
	return &resolving{Router: r, registry: registry, ask: func(need router.UnresolvedSchema) error {
		return registry.Ask(ctx, need)
	}}, err
}

func build(c *config.Loaded, topic string, ids router.Schemas) (router.Router, error) {
	if c.Router.Preset == config.PresetDebezium {
		d := debeziumConfig(c)
		d.Topic = topic
		return debezium.New(d)
	}
	o := outboxConfig(c)
	o.Registry.Schemas = ids
	if topic != "" {
		o.Topic = topic
	}
	columns, wrong := derivedColumns(c)
	r, err := outbox.New(o)
	if err := errors.Join(wrong, err); err != nil {
		return nil, err
	}
	return derived.New(columns, r), nil
}

// Needs lists the columns that the configured preset reads.
func Needs(c *config.Loaded) []router.Need {
	if c.Router.Preset == config.PresetDebezium {
		return debeziumConfig(c).Needs()
	}
	columns, _ := derivedColumns(c) // New reports the error
	return derived.Needs(columns, outboxConfig(c).Needs())
}

// ChoosesPartition reports whether a column chooses the partition of records, whatever their key.
func ChoosesPartition(c *config.Loaded) bool {
	return c.Router.Preset == config.PresetDebezium && debezium.ChoosesPartition(c.Router.Debezium.Additional)
}

// ConvertsKeys reports whether a record's key is something else than the text of its column.
func ConvertsKeys(c *config.Loaded) bool {
	return c.Router.Preset == config.PresetDebezium && strings.HasPrefix(c.Router.Debezium.KeyConverter, "json")
}

// derivedColumns also returns the columns that are right beside one that is wrong.
func derivedColumns(c *config.Loaded) (derived.Config, error) {
	d := derived.Config{Constants: c.Router.ConstantColumns, ID: c.Router.Columns.ID}
	if len(c.Router.JSONColumns) > 0 {
		d.Members = map[string]derived.Pointer{}
	}
	var wrong error
	for name, text := range c.Router.JSONColumns {
		p, err := derived.ParsePointer(text)
		if err != nil {
			wrong = &fault.Error{
				Kind: fault.Config, Object: "router.json_columns", Err: fmt.Errorf("%s: %q: %w", name, text, err),
				Next: "Write column/member, such as headers/PARTITION_ID.",
			}
			continue
		}
		d.Members[name] = p
	}
	return d, wrong
}

// Expressions are the derived columns as SQL, by name.
func Expressions(c *config.Loaded) map[string]string {
	out := map[string]string{}
	d, _ := derivedColumns(c) // New reports the error
	for name, p := range d.Members {
		path := make([]string, len(p.Path))
		for i, at := range p.Path {
			path[i] = identifier.QuoteLiteral(at)
		}
		out[name] = fmt.Sprintf("(%s::text::jsonb #>> ARRAY[%s])", identifier.Quote(p.Column), strings.Join(path, ", "))
	}
	for name, text := range d.Constants {
		out[name] = identifier.QuoteLiteral(text)
	}
	return out
}

func outboxConfig(c *config.Loaded) outbox.Config {
	r := &c.Router
	return outbox.Config{
		Columns: outbox.Columns{
			ID: r.Columns.ID, AggregateType: r.Columns.AggregateType, AggregateID: r.Columns.AggregateID,
			Type: r.Columns.Type, Payload: r.Columns.Payload, Headers: r.Columns.Headers,
			Timestamp: r.Columns.Timestamp,
		},
		DeadLetterTopic: r.DeadLetterTopic,
		Topic:           r.Topic,
		TopicRegex:      r.TopicRegex, TopicReplacement: r.TopicReplacement,
		TimestampUnit: r.TimestampUnit,
		KeyColumns:    r.KeyColumns,
		Format:        r.Format,
		StaticHeaders: r.StaticHeaders,
		ColumnHeaders: r.ColumnHeaders,
		Envelope: outbox.Envelope{
			VersionColumn: r.Envelope.VersionColumn, Version: r.Envelope.Version,
			TraceIDColumn: r.Envelope.TraceIDColumn,
		},
		CloudEvents: outbox.CloudEvents{
			Source: r.CloudEvents.Source, DataContentType: r.CloudEvents.DataContentType,
			DataSchema: r.CloudEvents.DataSchema, Extensions: r.CloudEvents.Extensions,
		},
		Catalog:  catalog(DSN(c)),
		Registry: registryConfig(&r.Registry),
	}
}

func registryConfig(g *config.Registry) outbox.Registry {
	o := outbox.Registry{
		SchemaIDColumn: g.SchemaIDColumn, Format: g.Format,
		MessageIndexes: g.MessageIndexes, MessageIndexesColumn: g.MessageIndexesColumn,
	}
	if g.URL != "" {
		o.Subject, o.VersionColumn = g.Subject, g.VersionColumn
	}
	return o
}

func debeziumConfig(c *config.Loaded) *debezium.Config {
	d := &c.Router.Debezium
	return &debezium.Config{
		TopicPrefix: d.TopicPrefix,
		Columns: debezium.Columns{
			ID: d.Columns.ID, Key: d.Columns.Key, Payload: d.Columns.Payload, Route: d.Columns.Route,
			Timestamp: d.Columns.Timestamp, SchemaVersion: d.Columns.SchemaVersion, Tracing: d.Columns.Tracing,
		},
		TopicRegex: d.TopicRegex, TopicReplacement: d.TopicReplacement,
		Additional: d.Additional, IgnoreMissing: d.AdditionalMissing == "ignore",
		TombstoneOnEmpty: d.TombstoneOnEmpty,
		Expand: debezium.ExpandJSON{
			Enabled: d.ExpandJSON, KeepNulls: d.ExpandJSONNull == "optional_bytes",
			KeepEmptyLists: d.ExpandJSONEmptyList == "optional_string",
		},
		ValueConverter: d.ValueConverter, KeyConverter: d.KeyConverter, HeaderConverter: d.HeaderConverter,
		ContextHeaders: d.ContextHeaders, PositionHeader: d.PositionHeader, RunID: runID(),
		DecimalHandling: d.DecimalHandling, TimePrecision: d.TimePrecision, BinaryHandling: d.BinaryHandling,
		HStoreHandling: d.HStoreHandling, IntervalHandling: d.IntervalHandling,
		DeadLetterTopic: c.Router.DeadLetterTopic,
		Catalog:         catalog(DSN(c)),
	}
}

// runID returns an id that is new with each start and sorts by time, like Debezium's: a UUID of version 7 (RFC 9562,
// section 5.7).
func runID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	for i, ms := 5, time.Now().UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
		b[i] = byte(ms)
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// catalog asks Postgres for the types and nullable columns, which schemas need and a Relation message does not contain.
func catalog(dsn func() (string, error)) func(*pgoutput.Relation) (router.Catalog, error) {
	return func(rel *pgoutput.Relation) (router.Catalog, error) {
		text, err := dsn()
		if err != nil {
			return router.Catalog{}, err
		}
		found, err := postgres.LookupCatalog(text, rel)
		if err != nil {
			return router.Catalog{}, err
		}
		c := router.Catalog{Types: make(map[uint32]router.PostgresType, len(found.Types)), Nullable: found.Nullable}
		for oid, t := range found.Types {
			c.Types[oid] = router.PostgresType{
				Name: t.Name, Enum: t.Kind == "e", Labels: t.Labels,
				Base: t.Base, BaseModifier: t.BaseModifier, Element: t.Element,
			}
		}
		return c, nil
	}
}

// TopicNames returns how rows name their topics: the template, and the function that renames its result; nil if nothing
// does.
func TopicNames(c *config.Loaded) (template string, rename func(name string) string) {
	if c.Router.Preset == config.PresetDebezium {
		return "${aggregate_type}", debezium.Topics(c.Router.Debezium.TopicRegex, c.Router.Debezium.TopicReplacement)
	}
	return c.Router.Topic, outboxConfig(c).Renamed()
}
