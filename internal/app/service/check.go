package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/check"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/nats"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/rabbitmq"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
)

// Check looks at Postgres and the broker as Run would find them, and changes nothing.
func Check(ctx context.Context, c *config.Loaded, report progress.Reporter) ([]preflight.Finding, error) {
	var findings []preflight.Finding
	for _, w := range c.Warnings {
		findings = append(findings, preflight.Finding{Level: preflight.Warn, Subject: "configuration", Found: w + "."})
	}
	db, err := wiring.NewTarget(c)
	if err != nil {
		return nil, err
	}
	exposed := watchLogins()
	found, topics, err := checkPostgres(ctx, c, db, report)
	if err != nil {
		return nil, err
	}
	exposures := exposed()
	if wiring.WritesDeadLetters(c) {
		topics = append(topics, c.Router.DeadLetterTopic)
	}
	more, err := checkBroker(ctx, c, db, topics, report)
	account, waits := checkConnector(ctx, c) // last: its account is to be of the time of this check's own findings
	return slices.Concat(findings, account, postgres.CheckEnvironment(db.DSN), found, exposures,
		inConnectorsWords(more, waits), promised(c)), err
}

// checkBroker looks at the broker, and at the topics to which rows lead.
func checkBroker(
	ctx context.Context, c *config.Loaded, db wiring.Target, topics []string, report progress.Reporter,
) ([]preflight.Finding, error) {
	if c.Sink == config.SinkNATS {
		defer report.Wait(progress.For("NATS to answer"))()
		return nats.Check(ctx, wiring.NATS(c), c.Delivery == "exactly_once", topics), ctx.Err()
	}
	if c.Sink == config.SinkRabbitMQ {
		defer report.Wait(progress.For("RabbitMQ to answer"))()
		owner := ""
		if id, err := systemID(ctx, db.DSN); err == nil { // otherwise the findings about Postgres say why
			owner = sink.SlotOwner(id, c.Postgres.Slot).ID
		}
		return rabbitmq.Check(ctx, wiring.RabbitMQ(c), owner, topics), ctx.Err()
	}
	defer report.Wait(progress.For("Kafka to answer"))()
	producer, err := wiring.Kafka(c)
	if err != nil {
		return nil, err
	}
	cluster := check.Options{Cluster: producer.Cluster, CreateTopic: producer.CreateTopic}
	cluster.KeepTimestamps = producer.KeepTimestamps
	cluster.OldestRow, cluster.NullKey = oldestRow(ctx, db), nullKey(ctx, c, db)
	cluster.Transactional = c.Delivery == "exactly_once"
	findings, err := check.Cluster(ctx, cluster, topics)
	switch {
	case errors.Is(err, check.ErrNoBroker):
		return findings, ctx.Err() // the checks that follow ask Kafka, too
	case err != nil:
		return nil, err
	}
	if c.Source != config.SourcePolling {
		more, err := checkOwner(ctx, db.DSN, c, cluster)
		if err != nil {
			return nil, err
		}
		findings = append(findings, more...)
	}
	return findings, ctx.Err()
}

// checkPostgres also returns the topics to which the rows in the tables lead.
func checkPostgres(
	ctx context.Context, c *config.Loaded, db wiring.Target, report progress.Reporter,
) ([]preflight.Finding, []string, error) {
	defer report.Wait(progress.For("Postgres, whose WAL rate is measured over 2 s"))()
	var findings []preflight.Finding
	polled, err := wiring.PollingSetup(c, false)
	if err != nil {
		return nil, nil, err
	}
	if c.Source == config.SourcePolling {
		findings = polling.Check(ctx, db.DSN, polled)
	} else {
		db.Admin.SetupNever = c.Postgres.Setup == "never"
		db.Admin.Retained = setup.Retained{
			Warn: int64(c.Monitor.WarnRetained), Critical: int64(c.Monitor.CriticalRetained),
		}
		findings = setup.Preflight(ctx, db.DSN, db.Admin)
		findings = append(findings, polling.CheckBesideLog(ctx, db.DSN, polled)...)
	}
	sample, err := checkSample(ctx, c)
	topics, all := wiring.Topics(c, db.DSN, db.Admin.Tables).Sample(ctx)
	switch {
	case !all:
		findings = append(findings, preflight.Finding{
			Level: preflight.Warn, Subject: "topics",
			Found:  "Not every outbox can be read, and its rows name the topics.",
			Why:    "Whether their topics exist and may be written was not looked at.",
			Remedy: "Fix the findings about the tables, then check again.",
		})
	case len(topics) == 0 && len(db.Admin.Tables) > 0 && len(sample) == 0: // bad rows name none, either
		findings = append(findings, preflight.Finding{
			Level: preflight.OK, Subject: "topics",
			Found: "No row in the outbox names one yet, so none was checked: run waits for missing topics, " +
				"and says so.",
		})
	}
	return append(findings, sample...), topics, err
}

// checkOwner looks at the rights in Kafka that carry the name of the Postgres cluster.
func checkOwner(ctx context.Context, dsn string, c *config.Loaded, cluster check.Options) ([]preflight.Finding, error) {
	id, err := systemID(ctx, dsn)
	if err == nil {
		name := sink.SlotOwner(id, c.Postgres.Slot).ID
		if c.Delivery == "exactly_once" {
			return check.Transactions(ctx, cluster, name)
		}
		findings, err := check.Fencing(ctx, cluster, name)
		return append(findings, checkKept(ctx, cluster, name)...), err
	}
	return []preflight.Finding{{
		Level: preflight.Warn, Subject: "transactional id",
		Found:  "Its name is not known: Postgres does not return its system identifier.",
		Why:    "The rights to it in Kafka could not be checked.",
		Remedy: "Fix the findings about Postgres, then check again.",
	}}, nil
}

// checkKept looks whether the checkpoint's number can be kept in Kafka.
func checkKept(ctx context.Context, cluster check.Options, group string) []preflight.Finding {
	_, _, err := kafka.NewKeeper(cluster.Cluster, nil).Fetch(ctx, group)
	subject := "group " + group
	switch {
	case err == nil:
		return []preflight.Finding{preflight.Fine(subject, "The checkpoint's number is kept with it.")}
	case !errors.Is(err, sink.ErrNotAllowed):
		return nil // the findings about the brokers say more
	}
	remedy := cluster.AllowPositions(group, wire.DefaultPositionTopic)
	return []preflight.Finding{{
		Level: preflight.Warn, Subject: subject, Found: "The user may not use it.",
		Why: "The checkpoint's number is not kept outside of Postgres, so a server that was put back to an older " +
			"state " +
			"while the connector was down is not noticed.",
		Remedy: remedy.Next, Commands: remedy.Commands,
	}}
}

func systemID(ctx context.Context, dsn string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := postgres.Connect(ctx, dsn, "cdc-outbox check")
	if err != nil {
		return "", err
	}
	defer postgres.CloseConn(conn)
	err = conn.QueryRow(ctx, "SELECT system_identifier::text FROM pg_catalog.pg_control_system()").Scan(&id)
	return id, err
}
