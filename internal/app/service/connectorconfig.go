package service

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert/webhook"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/snapshot"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// instance names this process to its successor, and to readers of the successor's log.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, pid %d, started %s", host, os.Getpid(), time.Now().UTC().Format(time.RFC3339Nano))
}

// connectorConfig takes the settings of the connector and of its producer from the configuration.
func (p *process) connectorConfig(admin setup.Config, registry prometheus.Registerer) (
	_ connector.Config, b broker, err error,
) {
	c := p.Config
	schemas, err := p.schemaRegistry()
	if err != nil {
		return connector.Config{}, b, err
	}
	ids, resolver := wiring.SchemaParts(schemas)
	route, err := routing.New(c, ids)
	if err != nil {
		return connector.Config{}, b, err
	}
	recorder, err := p.tracesRecorder()
	if err != nil {
		return connector.Config{}, b, err
	}
	metrics := telemetry.NewMetrics(registry)
	if b, err = p.broker(metrics, registry); err != nil {
		return connector.Config{}, b, err
	}
	var primary func() (string, error)
	if c.Postgres.PrimaryDSN.IsSet() {
		primary = routing.PrimaryDSN(c)
	}
	return connector.Config{
		Replication: replication.Config{
			DSN: routing.DSN(c), Slot: c.Postgres.Slot, Publication: c.Postgres.Publication,
			Tables: admin.Tables, Messages: c.Postgres.Messages, Columns: admin.Columns, Failover: admin.Failover,
			Checkpoint: admin.Checkpoint,
			HotStandby: admin.HotStandby, PrimaryDSN: primary, LongRow: int64(c.Window.Row), Logger: p.Logger,
		},
		Sink:           b.open,
		ExactlyOnce:    b.transactions,
		Keeper:         b.keeper,
		Router:         route,
		Schemas:        resolver,
		Policies:       wiring.Policies(c),
		Standbys:       p.standbyGate(admin.Standbys),
		Snapshot:       openSnapshot(c, admin),
		SnapshotHeader: c.Router.Preset != config.PresetDebezium,
		OnChange:       connector.OnChange(c.Postgres.OnChange),
		DeadLetters:    wiring.DeadLetters(c),
		WindowRecords:  c.Window.Records,
		WindowBytes:    int64(c.Window.Bytes),
		Stall:          c.HTTP.Stall,
		Traces:         recorder,
		Metrics:        metrics,
		Logger:         p.Logger,
	}, b, nil
}

// standbyGate is nil if neither the relay nor the server waits for standbys.
func (p *process) standbyGate(demand standbys.Demand) *standbys.Gate {
	if len(demand.Names) == 0 && !p.Config.Postgres.Failover {
		return nil
	}
	return standbys.New(standbys.Config{
		Demand: demand, DSN: routing.DSN(p.Config), Slot: p.Config.Postgres.Slot, Patience: p.Config.HTTP.Stall,
		Logger: p.Logger,
	})
}

// tracesRecorder is nil if traces are off.
func (p *process) tracesRecorder() (*traces.Recorder, error) {
	if p.traces != nil {
		return p.traces, nil // of an attempt before this one
	}
	c := p.Config
	headers, err := c.Traces.Headers.Read()
	if err != nil {
		return nil, &fault.Error{Kind: fault.Config, Object: "traces.headers", Err: err}
	}
	settings, err := traces.Resolve(traces.Given{
		Endpoint: c.Traces.Endpoint, Protocol: c.Traces.Protocol, Headers: headers, Limit: c.Traces.Limit,
		Sample: float64(c.Traces.Sample), Default: c.Origins["traces.sample"].Layer == "default",
	}, os.Getenv)
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.Config, Object: "traces", Err: err,
			Next: "Correct the traces section of the configuration, or the OTEL_ variables; traces.endpoint off is " +
				"independent of them.",
		}
	}
	if settings == nil {
		return nil, nil
	}
	return traces.New(traces.Config{
		Settings: *settings, Slot: c.Postgres.Slot, Version: p.Build.Version, Registerer: p.registry, Logger: p.Logger,
	})
}

// openSnapshot opens the rows that were there before the slot.
func openSnapshot(c *config.Loaded, admin setup.Config) func(context.Context) (connector.Snapshot, error) {
	if !admin.Snapshot && c.OnGap != config.OnGapHeal {
		return nil
	}
	return func(ctx context.Context) (connector.Snapshot, error) {
		dsn, err := wiring.DSN(c)
		if err != nil {
			return nil, err
		}
		s, err := snapshot.Open(ctx, dsn, admin.Objects)
		if s == nil {
			return nil, err // not a nil pointer in an interface
		}
		s.LimitRows(int64(c.Window.Row))
		return s, err
	}
}

// webhookSender makes the sender of alerts. The URL is read again for each request, so that one in a file can change.
func (p *process) webhookSender() *webhook.Sender {
	m := &p.Config.Monitor
	return webhook.New(
		webhook.Config{
			URL: m.Webhook.Read, Format: m.WebhookFormat, Runbook: p.runbook, Logger: p.Logger, Registerer: p.registry,
		},
	)
}
