package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/traces"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// kafkaConfig takes what the producer needs from the configuration.
func kafkaConfig(c *config.Loaded) (kafka.Config, error) {
	k := kafka.Config{Brokers: c.Kafka.Brokers, Compression: c.Kafka.Compression}
	if topics := c.Kafka.Topics; topics.Create {
		k.CreateTopic = func(name string) kafka.TopicSettings {
			t := topics.For(name)
			return kafka.TopicSettings{Partitions: t.Partitions, ReplicationFactor: t.ReplicationFactor, Config: t.Config}
		}
	}
	tls, err := c.Kafka.TLS.Build()
	if err != nil {
		return k, &fault.Error{Kind: fault.Config, Object: "kafka.tls", Err: err}
	}
	k.TLS = tls
	if c.Kafka.SASL.Mechanism == "" {
		return k, nil
	}
	user, err := c.Kafka.SASL.Username.Read()
	if err != nil {
		return k, &fault.Error{Kind: fault.Config, Object: "kafka.sasl.username", Err: err}
	}
	k.SASL = &kafka.SASL{Mechanism: c.Kafka.SASL.Mechanism, Username: user, Password: c.Kafka.SASL.Password.Read}
	return k, nil
}

// instance names this process to the one that takes over from it, and to whoever reads that one's log.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, pid %d, started %s", host, os.Getpid(), time.Now().UTC().Format(time.RFC3339Nano))
}

// connectorConfig takes what the connector needs from the configuration.
func connectorConfig(c *config.Loaded, admin replication.AdminConfig, reg prometheus.Registerer, log *zap.Logger) (connector.Config, error) {
	route, err := router.New(routing.Config(c))
	if err != nil {
		return connector.Config{}, err
	}
	producer, err := kafkaConfig(c)
	if err != nil {
		return connector.Config{}, err
	}
	recorder, err := tracesRecorder(c, reg, log)
	if err != nil {
		return connector.Config{}, err
	}
	metrics := telemetry.NewMetrics(reg)
	producer.Logger, producer.Registerer = log, reg
	if c.Delivery == "exactly_once" {
		producer.Transactions = &kafka.Transactions{Instance: instance()}
	}
	producer.Reconnected = func() { metrics.Reconnected(telemetry.Kafka) }
	var primary func() (string, error)
	if c.Postgres.PrimaryDSN.IsSet() {
		primary = c.Postgres.PrimaryDSN.Read
	}
	return connector.Config{
		Replication: replication.Config{
			DSN: c.Postgres.DSN.Read, Slot: c.Postgres.Slot, Publication: c.Postgres.Publication,
			Tables: admin.Tables, Messages: c.Postgres.Messages, Columns: admin.Columns, Failover: admin.Failover, Memory: admin.Memory,
			Standby: admin.Standby, PrimaryDSN: primary, Logger: log,
		},
		Kafka:          producer,
		Router:         route,
		OnBadRow:       connector.BadRow(c.Router.OnBadRow),
		BadRows:        badRows(c),
		Snapshot:       snapshot(c, admin),
		SnapshotHeader: c.Router.Preset != config.PresetDebezium,
		OnChange:       connector.OnChange(c.Postgres.OnChange),
		DeadLetters:    deadLetters(c),
		WindowRecords:  c.Window.Records,
		WindowBytes:    int64(c.Window.Bytes),
		Stall:          c.HTTP.Stall,
		Traces:         recorder,
		Metrics:        metrics,
		Logger:         log,
	}, nil
}

// tracesRecorder is nil where traces are off.
func tracesRecorder(c *config.Loaded, reg prometheus.Registerer, log *zap.Logger) (*traces.Recorder, error) {
	headers, err := c.Traces.Headers.Read()
	if err != nil {
		return nil, &fault.Error{Kind: fault.Config, Object: "traces.headers", Err: err}
	}
	settings, err := traces.Resolve(traces.Given{
		Endpoint: c.Traces.Endpoint, Protocol: c.Traces.Protocol, Headers: headers, Limit: c.Traces.Limit,
		Sample: float64(c.Traces.Sample), Default: c.Origins["traces.sample"].Layer == "default",
	}, os.Getenv)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Config, Object: "traces", Err: err, Next: "Correct the traces section of the configuration, or the OTEL_ variables; traces.endpoint off is independent of them."}
	}
	if settings == nil {
		return nil, nil
	}
	return traces.New(traces.Config{Settings: *settings, Slot: c.Postgres.Slot, Version: build().Version, Registerer: reg, Logger: log})
}

// snapshot opens the rows that were there before the slot.
func snapshot(c *config.Loaded, admin replication.AdminConfig) func(context.Context) (connector.Snapshot, error) {
	if !admin.Snapshot {
		return nil
	}
	return func(ctx context.Context) (connector.Snapshot, error) {
		dsn, err := readDSN(c)
		if err != nil {
			return nil, err
		}
		s, err := replication.OpenSnapshot(ctx, dsn, admin)
		if s == nil {
			return nil, err // not a nil pointer in an interface
		}
		return s, err
	}
}

// badRows are the policies of the groups that have one of their own.
func badRows(c *config.Loaded) map[router.Group]connector.BadRow {
	b := &c.Router.BadRows
	return map[router.Group]connector.BadRow{
		router.GroupUnroutable: connector.BadRow(b.Unroutable), router.GroupNullKey: connector.BadRow(b.NullKey),
		router.GroupMissingColumn: connector.BadRow(b.MissingColumn), router.GroupTooLarge: connector.BadRow(b.TooLarge),
		router.GroupUnconvertible: connector.BadRow(b.Unconvertible),
	}
}

// badRowPolicy is that of a group, router.on_bad_row's where it has none of its own.
func badRowPolicy(c *config.Loaded, g router.Group) connector.BadRow {
	return cmp.Or(badRows(c)[g], connector.BadRow(c.Router.OnBadRow))
}

// putsAside says whether some bad row becomes a dead letter.
func putsAside(c *config.Loaded) bool {
	for _, g := range router.Groups() {
		if badRowPolicy(c, g) == connector.DeadLetter {
			return true
		}
	}
	return false
}

// deadLetters makes letters as run writes them.
func deadLetters(c *config.Loaded) deadletter.Builder {
	columns := c.Router.Roles()
	b := deadletter.Builder{Topic: c.Router.DeadLetterTopic, Slot: c.Postgres.Slot, Columns: deadletter.Columns{
		ID: columns.ID, Key: columns.AggregateID, Type: columns.Type, Payload: columns.Payload,
	}}
	if c.Router.Preset == config.PresetDebezium {
		b.Partitions = true
		if strings.HasPrefix(c.Router.Debezium.HeaderConverter, "json") {
			b.ID = idInJSON
		}
	}
	return b
}

// idInJSON reads the id as JsonConverter writes it, with schema or without.
func idInJSON(header []byte) []byte {
	var withSchema struct{ Payload json.RawMessage }
	if json.Unmarshal(header, &withSchema) == nil && withSchema.Payload != nil {
		header = withSchema.Payload
	}
	var text *string
	switch err := json.Unmarshal(header, &text); {
	case err != nil: // a number
		return header
	case text == nil:
		return nil
	}
	return []byte(*text)
}
