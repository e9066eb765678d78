package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/decision"
)

func (a *app) rowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "row",
		Short: "List the halted row, and pass it",
		Long: `row works on the row at which the connector is halted. A decision is written into postgres.decisions, for
this row alone; the connector that runs takes it up within two seconds, without a restart.`,
		Example: "  cdc-outbox row list\n  cdc-outbox row pass 018f4d3c-0000-7000-8000-000000000001 --reason 'no key'",
		Args:    knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = io.WriteString(a.stderr, cmd.UsageString())
			return fault.Usage("row needs list or pass", "cdc-outbox row list shows the halted row")
		},
	}
	cmd.AddCommand(a.rowListCommand(), a.rowPassCommand())
	return cmd
}

func (a *app) rowListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the halted row and the latest decisions",
		Long:    "list prints the row at which the connector is halted, open decisions, and the latest others.",
		Example: "  cdc-outbox row list --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			all, err := service.Decisions(cmd.Context(), c)
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.printJSON(append([]decision.Decision{}, all...))
			case len(all) == 0:
				fmt.Fprintln(a.stdout, "The connector is not halted at a row, and nothing was decided yet.")
			}
			for i := range all {
				fmt.Fprintln(a.stdout, fault.Printable(all[i].Line()))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) rowPassCommand() *cobra.Command {
	var letter, skip bool
	var reason string
	cmd := &cobra.Command{
		Use:   "pass EVENT_ID",
		Short: "Pass the halted row: write it to the dead-letter topic, or skip it",
		Long: `pass decides about the row at which the connector is halted, and about no other row. It is named by its
event id, or by its position. By default the row becomes a dead letter, which dead-letter retry corrects and sends.`,
		Example: "  cdc-outbox row pass 018f4d3c-0000-7000-8000-000000000001 --reason 'no key'\n" +
			"  cdc-outbox row pass 018f4d3c-0000-7000-8000-000000000001 --skip --reason 'a test event'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if reason == "" || letter && skip {
				return fault.Usage("--reason is missing, or both --dead-letter and --skip are given",
					"name one of the two, and say why with --reason; both are kept")
			}
			action := relay.DeadLetter
			if skip {
				action = relay.Skip
			}
			d, err := service.PassRow(cmd.Context(), c, args[0], action, reason)
			return a.decided(d, err)
		},
	}
	cmd.Flags().BoolVar(&letter, "dead-letter", false, "write the row to router.dead_letter_topic; the default")
	cmd.Flags().BoolVar(&skip, "skip", false, "leave the row out of Kafka")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) decided(d decision.Decision, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\nNext: cdc-outbox row list shows when it was taken up.\n",
		fault.Printable(d.Line()))
	return err
}

func (a *app) switchCommand(kind decision.Kind, short, long string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     string(kind),
		Short:   short,
		Long:    long,
		Example: "  cdc-outbox " + string(kind) + " --reason 'maintenance of the consumers'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			d, err := service.Switch(cmd.Context(), c, kind, reason)
			return a.decided(d, err)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "not given", "why, for the record")
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	return a.switchCommand(decision.Pause, "Stop publishing, until resume",
		`pause lets the connector read no more, within two seconds and across restarts. It holds its slot, which keeps
WAL meanwhile: alerts about the slot's size still fire.`)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.switchCommand(decision.Resume, "Go on after pause", "resume ends a pause, within two seconds.")
}
