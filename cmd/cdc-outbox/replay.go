package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/routing"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/archive"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// replayOptions are the flags of replay. What chooses rows is part of what a state file stands for.
type replayOptions struct {
	Types        []string `json:"aggregate_types,omitempty"`
	AggregateIDs []string `json:"aggregate_ids,omitempty"`
	IDs          []string `json:"ids,omitempty"`
	Since        string   `json:"since,omitempty"`
	Until        string   `json:"until,omitempty"`
	Topic        string   `json:"topic,omitempty"`
	Files        []string `json:"files,omitempty"`
	FromPosition string   `json:"from_position,omitempty"`
	ToPosition   string   `json:"to_position,omitempty"`
	FromTopics   []string `json:"from_topics,omitempty"`

	all, dryRun, skipBad, asJSON bool
	rate                         int
	resume                       string
	timeout                      time.Duration
}

func (a *app) replayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Publish rows of the outbox once more, beside the connector",
		Long: `replay reads rows of the outbox tables, makes records of them as the connector does, and publishes them with a producer of its own.
It changes nothing in Postgres and neither needs nor disturbs the connector. Rows are chosen by aggregate type, aggregate id,
event id and the timestamp column; a flag may be repeated, and different flags narrow the choice together.

--from-position and --to-position choose by the place in the log that the header position has. The table does not know it, so the
topics are read for it, from end to end, and the rows of the ids that are found there are published; their order is that of the
log then, per partition. A transaction is chosen by the LSN of its commit, given as both; transaction ids are nowhere kept.

Records keep the event's id, so an inbox that has handled it passes over it, and get a header "replayed" with the run's id. Their
order is that of the timestamp column, then of the id: per aggregate the order of the original where transactions that write to
the same aggregate do not overlap. The position header says 0000000000000000- and the number within the run: before every
position of the log, whose own the table does not know.

--topic has to exist, unless kafka.topics.create is set, which makes it as kafka.topics says; so have the rows' own. To make one:
kafka-topics.sh --bootstrap-server BROKER:9092 --create --topic NAME --partitions 12. A dry run does not look for it.

With --resume FILE the run's state is kept in the file; the same command goes on from there. What was in flight when it was killed,
500 rows at most, is published again. Without --until, rows from after the start are left to the connector.

Exit codes: 0 all is published, 1 it failed or was interrupted, 2 the command line is wrong, 3 something could not be published; what
and why is said.`,
		Example: `  cdc-outbox replay --aggregate-type order --since 2026-01-31T08:00:00Z --until 2026-01-31T09:00:00Z --dry-run
  cdc-outbox replay --aggregate-type order --aggregate-id 42 --aggregate-id 43
  cdc-outbox replay --from-position 0/16B374D8 --to-position 0000000016b39000-00000003
  cdc-outbox replay --from-archive public.outbox-20260131T080000Z-abcdefgh-0000.jsonl.zst --topic order.events.rebuilt
  cdc-outbox replay --all --topic order.events.rebuilt --rate 5000 --resume replay.state`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := o.filter()
			if err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.replay(cmd.Context(), c, &o, filter)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Types, "aggregate-type", nil, "only rows of this aggregate type; may be repeated")
	f.StringArrayVar(&o.AggregateIDs, "aggregate-id", nil, "only rows of this aggregate; may be repeated")
	f.StringArrayVar(&o.IDs, "id", nil, "only the event with this id; may be repeated")
	f.StringVar(&o.Since, "since", "", "only rows from this time on (RFC 3339), by the timestamp column")
	f.StringVar(&o.Until, "until", "", "only rows from before this time; the start of the run unless rows are named by --id")
	f.StringVar(&o.FromPosition, "from-position", "", "only events from this position on, as the header position has it, or the LSN of a commit")
	f.StringVar(&o.ToPosition, "to-position", "", "only events up to this position, which is included")
	f.StringArrayVar(&o.FromTopics, "from-topic", nil, "where to find the positions; may be repeated; the topics to which the rows in the tables lead, unless given")
	f.BoolVar(&o.all, "all", false, "every row, where nothing else chooses")
	f.StringArrayVar(&o.Files, "from-archive", nil, "rows of this file that prune --archive has written, not the table's; may be repeated")
	f.StringVar(&o.Topic, "topic", "", "publish to this topic, which has to exist or kafka.topics.create to be set, instead of the rows' own")
	f.IntVar(&o.rate, "rate", 1000, "rows a second at most; 0 for no limit")
	f.StringVar(&o.resume, "resume", "", "keep the state of the run in this file, and go on from it")
	f.BoolVar(&o.dryRun, "dry-run", false, "route the rows and count them per topic, and publish nothing")
	f.BoolVar(&o.skipBad, "skip-bad-rows", false, "pass over rows that cannot be published instead of stopping at them, and list them")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for Kafka to take 500 rows")
	f.BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
	return cmd
}

func (o *replayOptions) filter() (f outboxtable.Filter, err error) {
	f = outboxtable.Filter{AggregateTypes: o.Types, AggregateIDs: o.AggregateIDs, IDs: o.IDs}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"--since", o.Since, &f.Since}, {"--until", o.Until, &f.Until}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = time.Parse(time.RFC3339, t.text); err != nil {
			return f, fault.Usage(t.flag+" is no time", "write it as 2026-01-31T08:00:00Z")
		}
	}
	placed := o.FromPosition != "" || o.ToPosition != ""
	chosen := len(o.Types)+len(o.AggregateIDs)+len(o.IDs) > 0 || o.Since != "" || o.Until != "" || placed
	if len(o.Files) > 0 && (o.all || placed) {
		return f, fault.Usage("--from-archive knows no positions, and takes all rows anyway", "choose by --aggregate-type, --aggregate-id, --id, --since or --until, or by nothing")
	}
	if len(o.FromTopics) > 0 && !placed {
		return f, fault.Usage("--from-topic is where positions are looked for", "add --from-position or --to-position; --topic is where records go")
	}
	if _, err := o.window(); err != nil {
		return f, err
	}
	if len(o.Files) == 0 && o.all == chosen {
		return f, fault.Usage("it is not said which rows to publish", "choose by --aggregate-type, --aggregate-id, --id, --since, --until, --from-position or --to-position, or take --all")
	}
	if o.rate < 0 || o.timeout <= 0 {
		return f, fault.Usage("--rate and --timeout cannot be negative", "leave them out for 1000 rows a second and a minute")
	}
	if o.dryRun && o.resume != "" {
		return f, fault.Usage("--dry-run leaves no state behind", "leave --resume out")
	}
	if o.Topic != "" {
		if err := router.CheckTopic(o.Topic); err != nil {
			return f, fault.Usage("--topic: "+err.Error(), "name a topic as Kafka takes it")
		}
	}
	return f, nil
}

func (a *app) replay(ctx context.Context, c *config.Loaded, o *replayOptions, filter outboxtable.Filter) error {
	s, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	if err := needTables(s, "replay"); err != nil && len(o.Files) == 0 {
		return err
	}
	if o.FromPosition+o.ToPosition != "" && c.Source == config.SourcePolling {
		return fault.Usage("a relay that polls gives records no position", "choose by time: --since and --until")
	}
	state, err := openReplayState(o)
	if err != nil {
		return err
	}
	route, err := routing.NewTo(c, o.Topic)
	if err != nil {
		return err
	}
	r := &replay{o: o, router: route, unplaced: c.Source == config.SourcePolling, state: state, progress: a.stderr, topics: map[string]*replayedTopic{}, began: time.Now()}
	if !o.dryRun && !state.Done {
		if r.pub, err = a.newPublisher(ctx, c); err != nil {
			return err
		}
		defer r.pub.Close()
	}
	w, err := o.window()
	if err != nil {
		return err
	}
	byPosition := o.FromPosition != "" || o.ToPosition != ""
	if byPosition && !state.Done {
		err = a.byPosition(ctx, c, s, r, filter, w)
	}
	for state.Source < len(o.Files) && err == nil {
		err = r.file(ctx, o.Files[state.Source], s.Admin.Columns, filter)
	}
	for len(o.Files) == 0 && !byPosition && state.Source < len(s.Admin.Tables) && err == nil {
		err = r.table(ctx, s, s.Admin.Tables[state.Source], filter)
	}
	if err == nil {
		state.Done = true
		err = state.save()
	}
	if perr := a.printReplay(r); err == nil {
		err = perr
	}
	if err == nil && !o.dryRun && r.bad > 0 {
		err = &fault.Error{Kind: fault.Operator, Object: "replay", Err: fmt.Errorf("%d rows were not published", r.bad), Next: "Their reasons are above."}
	}
	switch {
	case err == nil || o.dryRun || state.Done:
	case ctx.Err() != nil:
		a.left = state.left()
	case state.path != "":
		fmt.Fprintf(a.stderr, "Published so far: %d rows. The same command goes on from there.\n", state.Rows)
	}
	return err
}

// sayOrder warns, before anything is published, where rows have no time to go by.
func (r *replay) sayOrder(rows *outboxtable.Rows) {
	if text := rows.Ordered(); text != "" {
		fmt.Fprintln(r.progress, text)
	}
}

// table publishes the chosen rows of a table, from where the state says on.
func (r *replay) table(ctx context.Context, s wiring.Target, t identifier.Table, filter outboxtable.Filter) error {
	rows, err := outboxtable.Open(ctx, s.DSN, s.Admin, t, filter)
	if err != nil {
		return err
	}
	defer rows.Close()
	r.sayOrder(rows)
	if filter.Until.IsZero() && len(filter.IDs) == 0 {
		if r.state.Until.IsZero() {
			r.state.Until = rows.Began()
		}
		rows.LeaveNewer(r.state.Until)
	}
	after := r.state.Key
	for more := true; more; {
		more, err = rows.Page(ctx, after, r.pageSize(), func(rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key) error {
			after = &key
			return r.take(ctx, rel, row, func() { r.state.Key = &key })
		})
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	return r.state.nextSource()
}

// file publishes the rows of an archive, after it has been read once to see that it is whole.
func (r *replay) file(ctx context.Context, path string, columns postgres.Columns, filter outboxtable.Filter) error {
	_, err := archive.Verify(path)
	n := int64(0)
	if err == nil {
		err = archive.Read(path, func(rel *pgoutput.Relation, row pgoutput.Tuple) error {
			if n++; n <= r.state.FileRows {
				return nil
			}
			if ok, err := filter.Match(columns, rel, row); err != nil || !ok {
				return err
			}
			done := n
			return r.take(ctx, rel, row, func() { r.state.FileRows = done })
		})
	}
	var known *fault.Error
	if err != nil && ctx.Err() == nil && !errors.As(err, &known) {
		err = &fault.Error{Kind: fault.Operator, Object: "--from-archive", Err: err, Next: "Take the file and its manifest from a copy."}
	}
	if err == nil {
		err = r.flush(ctx)
	}
	if err != nil {
		return err
	}
	return r.state.nextSource()
}

// needTables refuses what reads tables where there are none: a message that was emitted is in no table.
func needTables(s wiring.Target, command string) error {
	if len(s.Admin.Tables) > 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Config, Object: command, Err: errors.New("postgres.tables is off: events that were emitted with pg_logical_emit_message() are in the log alone, so nothing is left to read them from"),
		Next: "Have the application emit them again."}
}
