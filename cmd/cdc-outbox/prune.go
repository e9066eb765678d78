package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/archive"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/prune"
)

// partitionLock is how long a try to drop an attached partition may wait if --lock-timeout is not given: every other
// session that wants the table waits after it.
const partitionLock = 250 * time.Millisecond

type pruneFlags struct {
	prune.Options
	olderThan, verify string
	asJSON, lockGiven bool
}

func (a *app) pruneCommand() *cobra.Command {
	var o pruneFlags
	cmd := &cobra.Command{
		Use:   "prune --older-than AGE",
		Short: "Delete old rows of the outbox that Kafka has, archived first if wanted",
		Long: `prune deletes rows whose timestamp is older than --older-than, in short transactions with pauses
between them. Before the first it makes sure that the connector has had everything that it is going to delete
acknowledged by Kafka: it takes a snapshot, and waits until the slot, and what is remembered of it
(postgres.checkpoint), have passed the end of the log as of then. A row that is committed later is not deleted,
however old its timestamp. When the slot is missing, lost, not where it was left, or without a reader, nothing is
deleted.

With source: polling only rows whose published_at is set are deleted, and nothing has to be waited for.

What was never read from the log, because the slot was re-created or the table had left the publication, is a gap
(docs/gaps.md). While one is open, rows from an hour before its beginning on stay, and no row is deleted if its
beginning is not known: repair needs them. Dead letters that do not hold their row need it in the
table until they are retried.

With --partitions whole partitions are dropped instead, whose range of the timestamp column is older than --older-than
and whose rows are all certain to be published; rows of the default partition, of the future and of transactions that
were open stay. Where there is no default partition they are detached concurrently first, which blocks no session;
otherwise each try to drop one has the users of the table wait, for --lock-timeout at most. It takes the ownership of
table and partitions. The next run continues a run that was interrupted.

With --archive DIR the rows are written to compressed files with checksums first, which replay --from-archive reads.
It takes SELECT and DELETE on the table. A publication that sends deletes sends these; they are not events.

Exit codes: 0 done, 1 it failed or was interrupted, 2 the command line is wrong, 3 nothing may be deleted;
the reason is printed.`,
		Example: `  cdc-outbox prune --older-than 7d --dry-run
  cdc-outbox prune --older-than 7d --batch 1000 --pause 100ms
  cdc-outbox prune --older-than 30d --archive /var/lib/outbox-archive
  cdc-outbox prune --older-than 30d --partitions --archive /var/lib/outbox-archive
  cdc-outbox prune --verify-archive /var/lib/outbox-archive`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.verify != "" {
				return a.verifyArchive(cmd.Context(), o.verify)
			}
			if err := o.parse(); err != nil {
				return err
			}
			o.lockGiven = cmd.Flags().Changed("lock-timeout")
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.prune(cmd.Context(), c, &o)
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func (o *pruneFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.olderThan, "older-than", "", "how old rows have to be, by the timestamp column: 7d, 36h, 90m")
	f.BoolVar(&o.Partitions, "partitions", false, "drop whole partitions, and delete no rows one by one")
	f.IntVar(&o.Batch, "batch", 1000, "rows a transaction deletes")
	f.DurationVar(&o.Pause, "pause", 100*time.Millisecond, "time between two transactions")
	f.DurationVar(&o.Wait, "wait", 2*time.Minute, "how long to wait for the connector to confirm what is there")
	f.DurationVar(&o.LockTimeout, "lock-timeout", 2*time.Second,
		"how long a transaction may wait for a lock; with --partitions 250ms, unless given")
	f.DurationVar(&o.StatementTimeout, "statement-timeout", 30*time.Second, "how long a statement may take")
	f.StringVar(&o.Archive, "archive", "", "write the rows to files in this directory before they are deleted")
	f.StringVar(&o.verify, "verify-archive", "",
		"read the files in this directory and compare their checksums; nothing else")
	f.BoolVar(&o.TrustSlot, "trust-slot", false,
		"go without what is remembered of the slot, where postgres.checkpoint is off")
	f.BoolVar(&o.DryRun, "dry-run", false, "count the rows and delete nothing")
	f.BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
}

var days = regexp.MustCompile(`^(\d{1,5})d$`)

func (o *pruneFlags) parse() (err error) {
	if m := days.FindStringSubmatch(o.olderThan); m != nil {
		n, _ := strconv.Atoi(m[1])
		o.Age = time.Duration(n) * 24 * time.Hour
	} else if o.Age, err = time.ParseDuration(o.olderThan); err != nil {
		return fault.Usage(fmt.Sprintf("--older-than is not an age: %q", o.olderThan),
			"write for instance --older-than 7d, or 36h")
	}
	if o.Age <= 0 {
		return fault.Usage("--older-than is not greater than 0", "write for instance --older-than 7d, or 36h")
	}
	if o.Batch <= 0 || o.Batch > 100_000 {
		return fault.Usage(fmt.Sprintf("--batch is %d", o.Batch), "give a number from 1 to 100000")
	}
	for flag, d := range map[string]time.Duration{"--pause": o.Pause, "--wait": o.Wait} {
		if d < 0 {
			return fault.Usage(fmt.Sprintf("%s is %s", flag, d), "give 0 or a longer time")
		}
	}
	for flag, d := range map[string]time.Duration{
		"--lock-timeout": o.LockTimeout, "--statement-timeout": o.StatementTimeout,
	} {
		if d <= 0 {
			return fault.Usage(fmt.Sprintf("%s is %s", flag, d), "give a time greater than 0")
		}
	}
	if o.Archive != "" {
		if info, err := os.Stat(o.Archive); err != nil || !info.IsDir() {
			return fault.Usage("--archive names no directory", "create it, on a disk with enough room")
		}
	}
	return nil
}

func (a *app) prune(ctx context.Context, c *config.Loaded, o *pruneFlags) error {
	s, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	published, err := prunedBy(c)
	if err != nil {
		return err
	}
	if err := needTables(s, "prune"); err != nil {
		return err
	}
	if published != "" {
		over, err := wiring.PollingSetup(c, false)
		if err != nil {
			return err
		}
		if err := polling.Ended(ctx, s.DSN, over); err != nil {
			return err
		}
	}
	if o.Before, err = a.keptForGaps(ctx, c); err != nil {
		return err
	}
	o.Run, o.DSN, o.Admin, o.Published, o.Progress = newRunID(), s.DSN, s.Admin, published, a.progress()
	if o.Partitions && !o.lockGiven {
		o.LockTimeout = partitionLock
	}
	report, err := prune.Run(ctx, o.Options)
	a.left = pruneLeaves(report)
	if o.asJSON {
		return errors.Join(err, a.printJSON(report))
	}
	for _, p := range report {
		for _, m := range p.Files {
			fmt.Fprintf(a.stdout, "archived: %s, %d rows, %d bytes\n", filepath.Join(o.Archive, m.File), m.Rows,
				m.Bytes)
		}
		for _, q := range p.Partitions {
			fmt.Fprintln(a.stdout, q.Line(o.DryRun))
		}
		if err != nil && p.Cutoff.IsZero() {
			continue // it failed before anything was counted
		}
		fmt.Fprintf(a.stdout, "%s: %d rows from before %s, %d deleted\n", p.Table, p.Rows,
			human.Time(p.Cutoff), p.Deleted)
	}
	return err
}

// pruneLeaves is an interrupted run's result. Of a transaction that was under way it is not known whether it was
// committed.
func pruneLeaves(report []*prune.Table) string {
	var rows, partitions int64
	for _, p := range report {
		rows += p.Deleted
		for _, q := range p.Partitions {
			if q.Dropped {
				partitions++
			}
		}
	}
	if partitions > 0 {
		return "Dropped so far: " + human.Counted(partitions, "partition", "partitions") +
			". The same command goes on " +
			"with the rest."
	}
	return "Known to be deleted so far: " + human.Counted(rows, "row", "rows") +
		". The same command goes on with the rest."
}

// verifyArchive reads every file of a directory.
func (a *app) verifyArchive(ctx context.Context, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fault.Usage("--verify-archive names no directory", "name the directory that prune --archive wrote to")
	}
	paths, err := archive.Files(dir)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return &fault.Error{
			Kind: fault.Operator, Object: "archive " + fault.Printable(dir),
			Err: errors.New("the directory holds no archive, that is, not a single file *" + archive.Suffix),
			Next: "Name the directory that prune --archive DIR wrote to. If this is the one, nothing was archived " +
				"yet, or the files were moved: take them from a copy.",
		}
	}
	bad := 0
	for _, path := range paths {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m, err := archive.Verify(path)
		if err != nil {
			bad++
			fmt.Fprintf(a.stdout, "damaged: %s\n", fault.Printable(err.Error()))
			continue
		}
		fmt.Fprintf(a.stdout, "whole: %s, %d rows\n", fault.Printable(path), m.Rows)
	}
	if bad > 0 {
		return &fault.Error{
			Kind: fault.Operator, Object: "archive " + fault.Printable(dir),
			Err:  fmt.Errorf("%d of %d files are damaged", bad, len(paths)),
			Next: "Take those named above from a copy, each with its manifest.",
		}
	}
	return nil
}

// prunedBy is the column that says which rows may be deleted; empty if the slot does.
func prunedBy(c *config.Loaded) (string, error) {
	switch {
	case c.Source != config.SourcePolling:
		return "", nil
	case c.Polling.OnPublished == string(polling.Delete):
		return "", &fault.Error{
			Kind: fault.Config, Object: "prune",
			Err: errors.New("with polling.on_published: delete no published row is left to delete"),
		}
	}
	return c.Polling.Columns.PublishedAt, nil
}
