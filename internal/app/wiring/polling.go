package wiring

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// BacklogLimits are the limits beyond which a backlog is an alert.
func BacklogLimits(c *config.Loaded) diagnose.BacklogLimits {
	return diagnose.BacklogLimits{Warn: c.Polling.WarnBacklog, Critical: c.Polling.CriticalBacklog}
}

// Polling is the part of it that is about Postgres.
func Polling(c *config.Loaded) (polling.Config, error) {
	col := c.Router.Roles()
	cfg := polling.Config{
		DSN: routing.DSN(c), After: polling.After(c.Polling.OnPublished),
		Columns: polling.Columns{
			Key: col.AggregateID, Sequence: c.Polling.Columns.Sequence, Published: c.Polling.Columns.PublishedAt,
			Timestamp: col.Timestamp, ID: col.ID,
		},
		Workers: c.Polling.Workers, Batch: c.Polling.Batch, Interval: c.Polling.Interval, Notify: c.Polling.Notify,
		WindowRecords: c.Window.Records, WindowBytes: int64(c.Window.Bytes), LongRow: int64(c.Window.Row),
		Stall: c.HTTP.Stall, LookEvery: c.Monitor.Interval,
	}
	if c.Router.TimestampUnit != "" {
		cfg.Columns.Timestamp = ""
	}
	if c.Router.Preset == config.PresetDebezium {
		cfg.Columns.Timestamp = "" // it may be of any type there
	} else if len(c.Router.KeyColumns) > 0 {
		cfg.Columns.Key = c.Router.KeyColumns[0] // rows of one key have the same value in each column of it
	}
	for _, name := range c.Postgres.OutboxTables() {
		t, err := identifier.ParseTable(name)
		if err != nil {
			return cfg, &fault.Error{Kind: fault.Config, Object: "postgres.tables", Err: err}
		}
		cfg.Tables = append(cfg.Tables, t)
	}
	return cfg, nil
}

// PollingRelay is all that the relay takes. Its metrics are registered already. schemas may be nil.
func PollingRelay(c *config.Loaded, log *zap.Logger, registry prometheus.Registerer, schemas *schemaregistry.Registry) (
	polling.Config, error,
) {
	cfg, err := Polling(c)
	if err != nil {
		return cfg, err
	}
	producer, err := Kafka(c)
	if err != nil {
		return cfg, err
	}
	metrics := telemetry.NewMetrics(registry)
	producer.Logger, producer.Registerer = log, registry
	producer.Reconnected = func() { metrics.Reconnected(telemetry.Kafka) }
	cfg.Sink, cfg.Metrics, cfg.Logger = kafka.Open(producer), metrics, log
	ids, resolver := SchemaParts(schemas)
	cfg.Schemas = resolver
	cfg.NewRouter = func() (router.Router, error) { return routing.New(c, ids) }
	cfg.DeadLetters, cfg.Policies = DeadLetters(c), Policies(c)
	return cfg, nil
}

// PollingSetup are the objects in Postgres that the relay needs.
func PollingSetup(c *config.Loaded, table bool) (polling.Setup, error) {
	cfg, err := Polling(c)
	if err != nil {
		return polling.Setup{}, err
	}
	s := polling.Setup{Tables: cfg.Tables, Columns: cfg.Columns, After: cfg.After, Notify: cfg.Notify}
	admin, err := Admin(c, table)
	s.TableHint, s.TableDDL, s.LastWord = admin.TableHint, admin.TableDDL, admin.Checkpoint
	s.Decisions, s.Relay = admin.Decisions, relayName(c)
	return s, err
}
