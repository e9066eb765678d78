package main

import (
	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/service"
	"github.com/cdc-outbox/cdc-outbox/internal/statusview"
)

func (a *app) statusCommand() *cobra.Command {
	var asJSON, why bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the slot, the connector, and what it waits for",
		Long: `status asks Postgres for the slot, which works also when the connector does not run, and asks the
connector at http.listen how it is. With --why it says only what the slot waits for, and what to do about it. The exit
code is 3 when the slot is missing or lost.`,
		Example: `  cdc-outbox status --config cdc-outbox.yaml
  cdc-outbox status --why
  cdc-outbox status --json | jq .replication_slot.retained_wal_bytes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if c.Source == config.SourcePolling {
				return a.statusPolling(cmd.Context(), c, why, asJSON)
			}
			st, source, err := service.Look(cmd.Context(), c)
			switch {
			case cmd.Context().Err() != nil:
				return cmd.Context().Err() // what could not be learnt for that reason says nothing of the slot
			case why && asJSON:
				if perr := a.printJSON(st.Cause); perr != nil {
					return perr
				}
				return err
			case why:
				if perr := statusview.WriteCause(a.stdout, st.Cause); perr != nil {
					return perr
				}
				return err
			case asJSON:
				if perr := a.printJSON(st); perr != nil {
					return perr
				}
				return err
			}
			if perr := statusview.Write(a.stdout, st, source); perr != nil {
				return perr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&why, "why", false, "say only what the slot waits for")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, the same as /status")
	return cmd
}
