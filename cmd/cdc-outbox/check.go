package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// report is what check --json prints.
type report struct {
	OK       bool                `json:"ok"` // no finding fails
	Findings []preflight.Finding `json:"findings"`
}

func (a *app) checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look at Postgres and Kafka before run does: what is wrong, why it matters, what mends it",
		Long: `check reads the configuration that run would use, connects to Postgres and Kafka and changes nothing. The topics it looks for
are those that rows in the outbox lead to. Each finding says what was found, why it matters, and the SQL or command that mends
it. The exit code is 3 when run would not work.`,
		Example: `  cdc-outbox check --config cdc-outbox.yaml
  cdc-outbox check --json | jq '.findings[] | select(.level == "fail")'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			findings, err := a.check(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.printReport(findings, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) check(ctx context.Context, c *config.Loaded) ([]preflight.Finding, error) {
	var findings []preflight.Finding
	for _, w := range c.Warnings {
		findings = append(findings, preflight.Finding{Level: preflight.Warn, Subject: "configuration", Found: w + "."})
	}
	dsn, err := wiring.DSN(c)
	if err != nil {
		return nil, err
	}
	admin, err := wiring.Admin(c, false)
	if err != nil {
		return nil, err
	}
	producer, err := wiring.Kafka(c)
	if err != nil {
		return nil, err
	}
	if c.Delivery == "exactly_once" {
		producer.Transactions = &kafka.Transactions{}
	}
	stop := a.watchFor("Postgres to answer")
	if c.Source == config.SourcePolling {
		s, err := wiring.PollingSetup(c, false)
		if err != nil {
			stop()
			return nil, err
		}
		findings = append(findings, polling.Check(ctx, dsn, s)...)
	} else {
		admin.SetupNever = c.Postgres.Setup == "never"
		admin.Retained = replication.Retained{Warn: int64(c.Monitor.WarnRetained), Critical: int64(c.Monitor.CriticalRetained)}
		findings = append(findings, replication.Preflight(ctx, dsn, admin)...)
		s, err := wiring.PollingSetup(c, false)
		if err != nil {
			stop()
			return nil, err
		}
		findings = append(findings, polling.CheckBesideLog(ctx, dsn, s)...)
	}
	topics, all := wiring.Topics(c, dsn, admin.Tables).Sample(ctx)
	stop()
	switch {
	case !all:
		findings = append(findings, preflight.Finding{
			Level: preflight.Warn, Subject: "topics", Found: "Not every outbox can be read, and its rows name the topics.",
			Why: "Whether their topics exist and may be written was not looked at.", Remedy: "Mend what is said of the tables, then check again.",
		})
	case len(topics) == 0 && len(admin.Tables) > 0:
		findings = append(findings, preflight.Finding{
			Level: preflight.OK, Subject: "topics",
			Found: "No row in the outbox names one yet, so none was looked at: run waits for those that are missing, and says so.",
		})
	}
	if wiring.WritesDeadLetters(c) {
		topics = append(topics, c.Router.DeadLetterTopic)
	}
	defer a.watchFor("Kafka to answer")()
	brokers, err := kafka.Check(ctx, producer, topics)
	if err != nil {
		return nil, err
	}
	findings = append(findings, brokers...)
	if c.Delivery == "exactly_once" {
		more, err := checkClaim(ctx, dsn, c, producer)
		if err != nil {
			return nil, err
		}
		findings = append(findings, more...)
	}
	return findings, ctx.Err()
}

// checkClaim looks at the rights in Kafka that carry the name of the Postgres cluster.
func checkClaim(ctx context.Context, dsn string, c *config.Loaded, producer kafka.Config) ([]preflight.Finding, error) {
	id, err := systemID(ctx, dsn)
	if err != nil {
		return []preflight.Finding{{
			Level: preflight.Warn, Subject: "transactional id", Found: "Its name is not known: Postgres does not tell its system identifier.",
			Why: "The rights to it in Kafka could not be looked at.", Remedy: "Mend what is said of Postgres, then check again.",
		}}, nil
	}
	return kafka.CheckTransactions(ctx, producer, kafka.ClaimName(id, c.Postgres.Slot))
}

func systemID(ctx context.Context, dsn string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, "SELECT system_identifier::text FROM pg_catalog.pg_control_system()").Scan(&id)
	return id, err
}

func (a *app) printReport(findings []preflight.Finding, asJSON bool) error {
	fails, warns := count(findings, preflight.Fail), count(findings, preflight.Warn)
	if asJSON {
		if err := a.printJSON(report{OK: fails == 0, Findings: findings}); err != nil {
			return err
		}
	} else {
		if err := writeFindings(a.stdout, findings, a.colourful()); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "\n%d to mend, %d to think about, %d fine\n", fails, warns, len(findings)-fails-warns)
	}
	if fails == 0 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "check", Err: fmt.Errorf("%d of %d findings keep run from working", fails, len(findings)),
		Next: "do what the findings say, then check again",
	}
}
