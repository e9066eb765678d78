package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/writers"
)

// table has columns of text, or "name type", with ! for the primary key.
func table(name string, columns ...string) Table {
	t := Table{Table: identifier.Table{Schema: "public", Name: name}}
	for _, c := range columns {
		c, primary := strings.CutSuffix(c, "!")
		column, sqlType, typed := strings.Cut(c, " ")
		if !typed {
			sqlType = "text"
		}
		t.Columns = append(t.Columns, writers.Column{Name: column, Type: sqlType, Primary: primary})
	}
	return t
}

// loaded is the configuration that a file gives; every file is one without a mistake.
func loaded(t *testing.T, text string) *config.Loaded {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := config.Load(config.Options{Environ: []string{"CDC_OUTBOX_CONFIG=" + path}})
	require.NoError(t, err, text)
	return c
}

func TestFile(t *testing.T) {
	s := &Survey{
		Database: "shop\n# x", WALLevel: "replica", Slots: []Slot{{Name: "other", Plugin: "pgoutput", Active: true}},
		Publications: []Publication{{Name: "everything", AllTables: true}},
	}
	text, err := s.File(Wishes{})
	require.NoError(t, err)
	require.Equal(t, []string{"public.outbox"}, loaded(t, text).Postgres.Tables)
	for _, want := range []string{
		"No table looks like an outbox", "wal_level is replica", "has no REPLICATION",
		"exists: other (pgoutput), a process", "exists: everything, for all tables",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "\n# x", "a name cannot begin a line")

	s = &Survey{WALLevel: "logical", Replication: true, Tables: []Table{
		table("orders", "id", "name", "data", "created_at timestamptz"),
		table("Event Log", "event_id", "topic", "key", "event_type", "Body"),
		table("outbox_archive", "id", "aggregate_type", "payload"),
		table("cdc_outbox_slots", "id", "payload"),
	}}
	text, err = s.File(Wishes{})
	require.NoError(t, err)
	require.Contains(t, text, `tables: ["public.outbox_archive"]`, "the name counts most")
	require.Contains(t, text, `# public."Event Log" looks like an outbox, too`)
	require.NotContains(t, text, "orders")
	require.Contains(t, text, "undecided:\n  - router.columns.aggregate_id: ")

	text, err = s.File(Wishes{Table: `public."Event Log"`})
	require.NoError(t, err)
	c := loaded(t, text)
	require.Equal(t, []string{`public."Event Log"`}, c.Postgres.Tables)
	require.Equal(t, "event_id", c.Router.Columns.ID)
	require.Equal(t, "", c.Router.Columns.AggregateType)
	require.Equal(t, "${column:topic}", c.Router.Topic)
	require.Equal(t, "Body", c.Router.Columns.Payload)
	_, err = s.File(Wishes{Table: "public.missing"})
	require.ErrorContains(t, err, "has no table public.missing")

	s.Tables = []Table{table("outbox", "id", "aggregatetype", "aggregateid", "type", "payload")}
	text, err = s.File(Wishes{})
	require.NoError(t, err)
	require.Equal(t, "aggregatetype", loaded(t, text).Router.Columns.AggregateType)
	require.Contains(t, text, "columns of Debezium's outbox event router")
	require.Contains(t, text, `headers: ""   # no column of JSON was recognized`)
}

// The outbox tables that people make with their ORM, each as its migrations or models would.
//
// Bug (configuration): `config init` knew names without types, and took a column with the topic for the aggregate type.
// Cost: events in orders.events.events, and remedies that name columns of any type.
func TestShapes(t *testing.T) {
	const byType = "${aggregate_type}.events"
	for _, of := range []struct {
		name    string
		table   Table
		columns config.Columns
		topic   string
	}{
		{
			"Rails, polymorphic", table("outbox_events", "id bigint!", "messageable_type character varying",
				"messageable_id bigint", "event_name character varying", "payload jsonb",
				"created_at timestamp(6) without time zone", "updated_at timestamp(6) without time zone"),
			config.Columns{
				ID: "id", AggregateType: "messageable_type", AggregateID: "messageable_id", Type: "event_name",
				Payload: "payload", Timestamp: "created_at",
			},
			byType,
		},
		{
			"Rails, uuid", table("outbox_messages", "id uuid!", "topic character varying", "key character varying",
				"name character varying", "data jsonb", "metadata jsonb", "created_at timestamp with time zone"),
			config.Columns{
				ID: "id", AggregateID: "key", Type: "name", Payload: "data", Headers: "metadata",
				Timestamp: "created_at",
			},
			"${column:topic}",
		},
		{
			"Django", table("core_outboxevent", "id bigint!", "event_id uuid", "aggregate character varying(64)",
				"aggregate_id character varying(64)", "event_type character varying(64)", "payload jsonb",
				"occurred_at timestamp with time zone", "published boolean"),
			config.Columns{
				ID: "id", AggregateType: "aggregate", AggregateID: "aggregate_id", Type: "event_type",
				Payload: "payload", Timestamp: "occurred_at",
			},
			byType,
		},
		{
			"Prisma", table("OutboxEvent", "id text!", "aggregateType text", "aggregateId text", "eventType text",
				"payload jsonb", "headers jsonb", "createdAt timestamp(3) without time zone",
				"processedAt timestamp(3) without time zone"),
			config.Columns{
				ID: "id", AggregateType: "aggregateType", AggregateID: "aggregateId", Type: "eventType",
				Payload: "payload", Headers: "headers", Timestamp: "createdAt",
			},
			byType,
		},
		{
			"TypeORM", table("outbox", "id uuid!", "destination character varying", "partitionKey character varying",
				"messageType character varying", "body json", "createdAt timestamp without time zone"),
			config.Columns{
				ID: "id", AggregateID: "partitionKey", Type: "messageType", Payload: "body", Timestamp: "createdAt",
			},
			"${column:destination}",
		},
		{
			"Sequelize", table("Outbox", "id integer!", "entityType public.enum_Outbox_entityType", "entityId uuid",
				"eventName character varying(255)", "eventData jsonb", "createdAt timestamp with time zone",
				"updatedAt timestamp with time zone"),
			config.Columns{
				ID: "id", AggregateType: "entityType", AggregateID: "entityId", Type: "eventName", Payload: "eventData",
				Timestamp: "createdAt",
			},
			byType,
		},
		{
			"Ecto", table("outbox_entries", "id uuid!", "stream character varying(255)", "stream_id uuid",
				"type character varying(255)", "data jsonb", "meta jsonb",
				"inserted_at timestamp(0) without time zone"),
			config.Columns{
				ID: "id", AggregateID: "stream_id", Type: "type", Payload: "data", Headers: "meta",
				Timestamp: "inserted_at",
			},
			"${column:stream}",
		},
		{
			"EF Core", table("OutboxMessages", "Id uuid!", "Type text", "Content text",
				"OccurredOnUtc timestamp with time zone", "ProcessedOnUtc timestamp with time zone", "Error text"),
			config.Columns{ID: "Id", Type: "Type", Payload: "Content", Timestamp: "OccurredOnUtc"},
			"${table}.events",
		},
		{
			"EF Core, aggregates", table("OutboxEvents", "OutboxId uuid!", "AggregateType text", "AggregateId uuid",
				"EventName text", "PayloadJson jsonb", "OccuredOn timestamp with time zone"),
			config.Columns{
				ID: "OutboxId", AggregateType: "AggregateType", AggregateID: "AggregateId", Type: "EventName",
				Payload: "PayloadJson", Timestamp: "OccuredOn",
			},
			byType,
		},
		{
			"EF Core, routing key", table("Outbox", "Id bigint!", "RoutingKey text", "AggregateId text",
				"EventType text",
				"EventData bytea", "CreatedOn timestamp with time zone"),
			config.Columns{
				ID: "Id", AggregateID: "AggregateId", Type: "EventType", Payload: "EventData", Timestamp: "CreatedOn",
			},
			"${column:RoutingKey}",
		},
		{
			"Alembic", table("outbox", "outbox_id bigint!", "aggregate_type text", "aggregate_id uuid",
				"event_type text",
				"payload_json json", "occurred_on timestamp with time zone"),
			config.Columns{
				ID: "outbox_id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Type: "event_type",
				Payload: "payload_json", Timestamp: "occurred_on",
			},
			byType,
		},
		{
			"Knex", table("outbox_messages", "id uuid!", "channel character varying(255)", "message_key text",
				"message text", "created_at timestamp with time zone"),
			config.Columns{ID: "id", AggregateID: "message_key", Payload: "message", Timestamp: "created_at"},
			"${column:channel}",
		},
		{
			"Laravel", table("outbox_messages", "id bigint!", "eventable_type character varying(255)",
				"eventable_id bigint", "event character varying(255)", "payload json",
				"created_at timestamp(0) without time zone"),
			config.Columns{
				ID: "id", AggregateType: "eventable_type", AggregateID: "eventable_id", Type: "event",
				Payload:   "payload",
				Timestamp: "created_at",
			},
			byType,
		},
		{
			"Hibernate", table("outboxevent", "id uuid!", "aggregatetype character varying(255)",
				"aggregateid character varying(255)", "type character varying(255)",
				"timestamp timestamp(6) with time zone",
				"payload jsonb", "tracingspancontext character varying(256)"),
			config.Columns{
				ID: "id", AggregateType: "aggregatetype", AggregateID: "aggregateid", Type: "type", Payload: "payload",
				Timestamp: "timestamp",
			},
			byType,
		},
		{
			"CloudEvents", table("outbox", "id text!", "source text", "subject text", "type text", "data jsonb",
				"time timestamp with time zone"),
			config.Columns{ID: "id", AggregateID: "subject", Type: "type", Payload: "data", Timestamp: "time"},
			"${table}.events",
		},
		{
			"a key of its own", table("outbox", "seq bigint!", "aggregate_type text", "aggregate_id text",
				"payload jsonb"),
			config.Columns{ID: "seq", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Payload: "payload"},
			byType,
		},
		{
			"an event as JSON", table("domain_events_outbox", "uuid uuid!", "entity text", "entity_id text",
				"action text", "event jsonb", "attributes text", "created date"),
			config.Columns{
				ID: "uuid", AggregateType: "entity", AggregateID: "entity_id", Type: "action",
				Payload: "event",
			},
			byType,
		},
	} {
		t.Run(of.name, func(t *testing.T) {
			text, err := (&Survey{WALLevel: "logical", Replication: true, Tables: []Table{of.table}}).File(Wishes{})
			require.NoError(t, err)
			if of.columns.AggregateID == "" {
				require.Contains(t, text, "undecided:\n  - router.columns.aggregate_id: ")
				text, _, _ = strings.Cut(text, "# Decide these")
				text += "kafka: {brokers: [a:1]}\n"
				of.columns.AggregateID = "aggregate_id"
			}
			c := loaded(t, text)
			require.Equal(t, of.columns, c.Router.Columns, text)
			require.Equal(t, of.topic, c.Router.Topic)
		})
	}
}

// The key that is wished for is a column of a type that suits it, or a member of JSON.
func TestKey(t *testing.T) {
	s := &Survey{WALLevel: "logical", Replication: true, Tables: []Table{
		table("outbox", "id uuid!", "order_id bigint", "payload jsonb", "sent_at timestamptz", "a/b~c json"),
	}}
	for key, want := range map[string]string{
		"order_id": "order_id", "id": "id", "payload/order/number": "number", "payload/id": "id_of_payload",
		"a~1b~0c/x": "x",
	} {
		text, err := s.File(Wishes{Key: key})
		require.NoError(t, err)
		c := loaded(t, text)
		require.Equal(t, want, c.Router.Columns.AggregateID)
		if strings.Contains(key, "/") {
			require.Equal(t, map[string]string{want: key}, c.Router.JSONColumns)
		}
	}
	for key, want := range map[string]string{
		"sent_at": "column sent_at is timestamptz", "nowhere": "no column nowhere", "nowhere/x": "no column nowhere",
		"payload/": "no column payload", "x\nrouter:": "no column x",
	} {
		_, err := s.File(Wishes{Key: key})
		require.ErrorContains(t, err, "--key: ", key)
		require.ErrorContains(t, err, want)
	}
	_, err := (&Survey{}).File(Wishes{Key: "x"})
	require.ErrorContains(t, err, "no table looks like an outbox")
	_, err = (&Survey{Tables: []Table{
		table("message", "id", "destination", "headers", "payload", "published", "creation_time"),
	}}).File(Wishes{Key: "destination"})
	require.ErrorContains(t, err, "Eventuate Tram")
}
