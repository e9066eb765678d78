package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
)

// countLimit is how long the events that would be lost are counted; decoding a long backlog takes its time.
const countLimit = time.Minute

func (a *app) slotCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "slot",
		Short: "Show all that is known of the slot; accept, advance or recreate it",
		Long: `slot asks Postgres for the slot and for what is remembered of it (postgres.checkpoint), and says in a
sentence whether the connector would go on from it. It changes nothing. The commands below it do, while no connector
runs.`,
		Example: "  cdc-outbox slot --json\n  cdc-outbox slot accept",
		Args:    knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.slotChange(cmd)
			if err != nil {
				return err
			}
			r, err := setup.ReportSlot(cmd.Context(), s.DSN, s.Admin)
			if err != nil {
				return err
			}
			show := a.printSlot
			if asJSON {
				show = func(r setup.SlotReport) error { return a.printJSON(r) }
			}
			if err := show(r); err != nil {
				return err
			}
			return r.Problem()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(a.slotAcceptCommand(), a.slotAdvanceCommand(), a.slotRecreateCommand())
	return cmd
}

func (a *app) slotAcceptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "accept",
		Short: "Go on from the slot as it is, where it is not where it was left",
		Long: `accept writes the slot's present position into the table that remembers it, and into Kafka, so that the
connector starts again. The slot itself is not touched. With a slot that is where it was left, accept changes nothing.

A slot that was moved: what was committed between the two positions comes through no slot. Run repair afterwards.

A server that was put back to an older state: Kafka has events that were committed after that state. They stay in Kafka,
and their rows may not exist in the table any more. Events that the server commits from now on are published. Events
between the slot's position and that state are published a second time.`,
		Example: "  cdc-outbox slot accept",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.slotChange(cmd)
			if err != nil {
				return err
			}
			return a.changed(setup.AcceptSlot(cmd.Context(), s.DSN, s.Admin))
		},
	}
}

func (a *app) slotAdvanceCommand() *cobra.Command {
	var to string
	var lose bool
	cmd := &cobra.Command{
		Use:   "advance --to LSN",
		Short: "Move the slot forward over events that are then never published",
		Long: `advance moves the slot to a position. The events in between are passed over; it decodes and counts them
first, and changes nothing without --yes-lose-events. A slot never goes back.`,
		Example: "  cdc-outbox slot advance --to 0/16B3748\n  cdc-outbox slot advance --to 0/16B3748 --yes-lose-events",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.slotChange(cmd)
			if err != nil {
				return err
			}
			if to == "" {
				return fault.Usage("--to is missing",
					"name the position, as Postgres prints it; `cdc-outbox slot` shows the present ones")
			}
			if err := a.sayLost(cmd.Context(), s, to, lose); err != nil {
				return err
			}
			return a.changed(setup.AdvanceSlot(cmd.Context(), s.DSN, s.Admin, to))
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "position to move the slot to")
	cmd.Flags().BoolVar(&lose, "yes-lose-events", false, "do it")
	return cmd
}

func (a *app) slotRecreateCommand() *cobra.Command {
	var lose bool
	cmd := &cobra.Command{
		Use:   "recreate",
		Short: "Drop the slot, where there is one, and re-create it",
		Long: `recreate is the recovery from a slot that is lost, missing or can no longer be decoded. The new one
starts now: what was not confirmed before comes through no slot, and repair finds it. It counts these events first
where the old slot can still be read, and changes nothing without --yes-lose-events.`,
		Example: "  cdc-outbox slot recreate --yes-lose-events",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.slotChange(cmd)
			if err != nil {
				return err
			}
			if err := a.sayLost(cmd.Context(), s, "", lose); err != nil {
				return err
			}
			return a.changed(setup.RecreateSlot(cmd.Context(), s.DSN, s.Admin))
		},
	}
	cmd.Flags().BoolVar(&lose, "yes-lose-events", false, "do it")
	return cmd
}

func (a *app) slotChange(cmd *cobra.Command) (wiring.Target, error) {
	c, err := a.load(cmd)
	if err != nil {
		return wiring.Target{}, err
	}
	if err := needsSlot(c, "slot", "`cdc-outbox status` shows what is not published."); err != nil {
		return wiring.Target{}, err
	}
	s, err := wiring.NewTarget(c)
	if err != nil {
		return s, err
	}
	s.Admin.Outside, err = service.NewOutside(c)
	return s, err
}

// sayLost reports the events that would be lost, and refuses unless that is meant.
func (a *app) sayLost(ctx context.Context, s wiring.Target, to string, lose bool) error {
	r, err := setup.ReportUnread(ctx, s.DSN, s.Admin)
	if err != nil {
		return err
	}
	if err := r.Foreign(); err != nil {
		return err // nor is it this command's business to decode its content
	}
	switch {
	case to == "" && !r.Exists:
		fmt.Fprintln(a.stderr, "There is no slot to count with: how many events are missing only repair can tell.")
	case r.ReadBy != "":
		return s.Admin.BeingRead(r.ReadBy)
	default:
		if to == "" {
			to = r.CurrentLSN
		}
		counting, cancel := context.WithTimeout(ctx, countLimit)
		defer cancel()
		n, err := setup.CountSkipped(counting, s.DSN, s.Admin, to)
		if err != nil {
			fmt.Fprintf(a.stderr, "The events between %s and %s cannot be counted: %v\n", r.ConfirmedFlushLSN, to, err)
		} else {
			fmt.Fprintf(a.stderr, "Between %s, where the slot is, and %s there are %d events; the slot will not "+
				"bring them any more.\n", r.ConfirmedFlushLSN, to, n)
		}
	}
	if lose {
		return nil
	}
	return fault.Usage("nothing was changed",
		"add --yes-lose-events to do it; repair publishes afterwards what is still in the table")
}

func (a *app) changed(r setup.SlotReport, err error) error {
	if err != nil {
		return err
	}
	if err := a.printSlot(r); err != nil {
		return err
	}
	if r.Unchanged() {
		_, err = fmt.Fprintln(a.stdout, "Nothing was changed: the connector goes on from this slot as it is. Start it.")
		return err
	}
	_, err = fmt.Fprintln(a.stdout, "Start the connector; then `cdc-outbox repair --dry-run` counts what Kafka "+
		"does not have.")
	return err
}

func (a *app) printSlot(r setup.SlotReport) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %s\t%s\n", label, fault.Printable(text))
		}
	}
	fmt.Fprintf(w, "slot %s\n", r.Slot)
	line("verdict", r.Verdict)
	for _, next := range fault.Do(r.Next, r.Commands...).Lines() {
		line("next", next)
	}
	line("plugin", strings.TrimSuffix(r.Plugin+", database "+r.Database, ", database "))
	line("read by", r.ReadBy)
	line("inactive since", r.UnreadSince())
	line("WAL status", strings.TrimSpace(r.WALStatus+" "+r.InvalidationReason))
	line("confirmed", r.ConfirmedFlushLSN)
	if r.Remembered != "" {
		line("remembered", fmt.Sprintf("%s, timeline %d, system %s, write %d", r.Remembered, r.RememberedLine,
			r.RememberedID, r.Writes))
	}
	if k := r.Kept; k != nil {
		line("Kafka knows of", fmt.Sprintf("write %d, timeline %d, %s, events up to %s", k.Writes, k.Timeline,
			human.Time(k.At), k.Published))
	}
	line("Kafka", r.KeptError)
	line("keeps WAL from", r.RestartLSN)
	line("server", fmt.Sprintf("PostgreSQL %s at %s, timeline %d, system %s", r.ServerVersion, r.CurrentLSN, r.Timeline,
		r.SystemID))
	line("failover", fmt.Sprintf("%t, synchronised copy %t", r.Failover, r.Synced))
	if r.LastWord != nil {
		line("last run", r.LastWord.Explain())
		for _, next := range r.LastWord.Remedy().Lines() {
			line("next", next)
		}
	}
	for _, t := range r.Open {
		line("held back by", t)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
