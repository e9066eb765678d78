package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// caughtUpLimit is how long repair waits for the connector, so that what is still on its way does not count as missing.
const caughtUpLimit = 2 * time.Minute

type repairOptions struct {
	dryRun, asJSON bool
	since          string
	topics         []string
}

func (a *app) repairCommand() *cobra.Command {
	var o repairOptions
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Find the outbox rows that Kafka does not have, and publish them again",
		Long: `repair compares the ids in the outbox tables with the header id of the records in Kafka, and publishes again what is missing, by
deleting and inserting these rows in one statement: their ids stay, the connector relays the inserts at new positions, behind newer
events. The connector has to run meanwhile; repair waits until it has caught up, so that nothing on its way counts as missing.
--dry-run counts, and needs SELECT only; publishing takes INSERT and DELETE on the table.

It takes for granted that Kafka still holds the records of the rows it looks at: neither retention nor compaction has removed
them. Where a topic has begun to remove records it asks for --since.`,
		Example: `  cdc-outbox repair --dry-run
  cdc-outbox repair --since 2026-01-31T08:00:00Z`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.repair(cmd.Context(), c, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "count what is missing and change nothing")
	f.StringVar(&o.since, "since", "", "look only at rows from this time on (RFC 3339)")
	f.StringSliceVar(&o.topics, "topics", nil, "every topic that rows in the tables lead to, where that cannot be told from router.topic")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// repaired is what repair prints for each table.
type repaired struct {
	Table     string   `json:"table"`
	Rows      int      `json:"rows"`
	Missing   int      `json:"missing"`
	Published int64    `json:"published_again"`
	Examples  []string `json:"examples"` // ids
}

func (a *app) repair(ctx context.Context, c *config.Loaded, o repairOptions) error {
	if err := needsSlot(c, "repair", fmt.Sprintf("Rows of which Kafka has lost the records are published again, behind newer ones, by UPDATE … SET %s = NULL WHERE ….", replication.QuoteIdentifier(c.Polling.Columns.PublishedAt))); err != nil {
		return err
	}
	s, err := newSlotChange(c)
	if err != nil {
		return err
	}
	var since time.Time
	if o.since != "" {
		if since, err = time.Parse(time.RFC3339, o.since); err != nil {
			return usageError("--since is no time", "write it as 2026-01-31T08:00:00Z")
		}
	}
	// The table first, then Kafka: a row that is written in between is no business of this run.
	ids := map[replication.Table][]string{}
	for _, t := range s.admin.Tables {
		if ids[t], err = replication.EventIDs(ctx, s.dsn, s.admin, t, since); err != nil {
			return err
		}
	}
	topics := o.topics
	if len(topics) == 0 {
		if topics, err = allTopics(ctx, s.dsn, c, s.admin.Tables, "--topics"); err != nil {
			return err
		}
	}
	if err := a.awaitConnector(ctx, s, o.dryRun); err != nil {
		return err
	}
	have, err := a.idsInKafka(ctx, c, topics, since)
	if err != nil {
		return err
	}
	report := []repaired{}
	for _, t := range s.admin.Tables {
		missing := slices.DeleteFunc(slices.Clone(ids[t]), func(id string) bool { return have[id] })
		r := repaired{Table: t.String(), Rows: len(ids[t]), Missing: len(missing), Examples: missing[:min(len(missing), 10)]}
		if !o.dryRun && len(missing) > 0 {
			if r.Published, err = replication.Republish(ctx, s.dsn, s.admin, t, missing); err != nil {
				return err
			}
		}
		report = append(report, r)
	}
	if o.asJSON {
		return a.printJSON(report)
	}
	for _, r := range report {
		fmt.Fprintf(a.stdout, "%s: %d rows, %d of them not in Kafka, %d published again\n", r.Table, r.Rows, r.Missing, r.Published)
		for _, id := range r.Examples {
			fmt.Fprintf(a.stdout, "  %s\n", printable(id))
		}
	}
	return nil
}

// awaitConnector waits for what is on its way. Rows that a stopped connector is going to publish would come twice.
func (a *app) awaitConnector(ctx context.Context, s slotChange, dryRun bool) error {
	stop := a.watchFor("the connector to publish what is committed")
	done, err := replication.AwaitCaughtUp(ctx, s.dsn, s.admin, caughtUpLimit)
	stop()
	if err != nil || done {
		return err
	}
	if dryRun {
		fmt.Fprintln(a.stderr, "The connector does not run or has not caught up: what it is still going to publish counts as missing here.")
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "connector", Err: errors.New("it does not run or has not caught up, so what is missing cannot be told from what it is still going to publish"),
		Next: "Start it, wait until `cdc-outbox status` shows it streaming, then run repair again.",
	}
}

// allTopics returns every topic that the rows in the tables lead to.
func allTopics(ctx context.Context, dsn string, c *config.Loaded, tables []replication.Table, flag string) ([]string, error) {
	topicOf, template := func(name string) string { return name }, c.Router.Topic
	if c.Router.Preset == config.PresetDebezium {
		template, topicOf = "${aggregate_type}", router.DebeziumTopics(c.Router.Debezium.TopicRegex, c.Router.Debezium.TopicReplacement)
	}
	rest := placeholder.ReplaceAllString(template, "")
	if slices.Contains([]byte(rest), '$') {
		return nil, usageError("the topics cannot be told from router.topic", "name them with "+flag)
	}
	if rest == template {
		return []string{template}, nil
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Retry, Object: "postgres", Err: errors.New("cannot connect")}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var topics []string
	for _, t := range tables {
		rows, err := conn.Query(ctx, topicQuery(c.Router.Roles(), template, t, false))
		if err != nil {
			return nil, err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, &fault.Error{Kind: fault.Operator, Object: "table " + t.String(), Err: err}
		}
		for _, name := range names {
			if name = topicOf(name); router.CheckTopic(name) == nil && !slices.Contains(topics, name) {
				topics = append(topics, name)
			}
		}
	}
	return topics, nil
}

// idsInKafka reads the ids of all records. A topic that does not exist holds none.
func (a *app) idsInKafka(ctx context.Context, c *config.Loaded, topics []string, since time.Time) (map[string]bool, error) {
	cfg, err := kafkaConfig(c)
	if err != nil {
		return nil, err
	}
	reader, err := kafka.NewReader(cfg)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	defer a.watchReader(reader)()
	have := map[string]bool{}
	for _, topic := range topics {
		spans, err := reader.Spans(ctx, topic)
		if errors.Is(err, kafka.ErrNoTopic) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, span := range spans {
			if err := readIDs(ctx, reader, span, since, have); err != nil {
				return nil, err
			}
		}
	}
	return have, nil
}

func readIDs(ctx context.Context, reader *kafka.Reader, span kafka.Span, since time.Time, have map[string]bool) error {
	first := true
	for m, err := range reader.Messages(ctx, span) {
		if err != nil {
			return err
		}
		// Retention has begun to remove records here: what it removed must not be taken for lost.
		if oldest := time.UnixMilli(m.Timestamp); first && span.From > 0 && since.Before(oldest) {
			return &fault.Error{
				Kind: fault.Operator, Object: fmt.Sprintf("topic %q partition %d", span.Topic, span.Partition),
				Err:  fmt.Errorf("its records begin at %s; older ones were removed, and would count as missing", oldest.UTC().Format(time.RFC3339)),
				Next: "cdc-outbox repair --since " + oldest.Add(time.Minute).UTC().Format(time.RFC3339),
			}
		}
		first = false
		id, ok := m.Header("id")
		if !ok {
			id, ok = m.Header("ce_id")
		}
		if !ok {
			return &fault.Error{
				Kind: fault.Operator, Object: fmt.Sprintf("topic %q partition %d offset %d", span.Topic, span.Partition, m.Offset),
				Err: errors.New("the record has no header id, so it cannot be compared"), Next: "Compare by hand: docs/operations.md says how.",
			}
		}
		have[string(id)] = true
	}
	if first && span.From > 0 && since.IsZero() {
		return &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("topic %q partition %d", span.Topic, span.Partition),
			Err:  errors.New("all of its records were removed, and would count as missing"),
			Next: "Name with --since a time from which on no topic has lost records to retention.",
		}
	}
	return nil
}
