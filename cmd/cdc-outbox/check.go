package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// report is the output of check --json.
type report struct {
	OK       bool                `json:"ok"` // no finding fails
	Findings []preflight.Finding `json:"findings"`
}

func (a *app) checkCommand() *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look at Postgres and Kafka before run does: what is wrong, why it matters, what fixes it",
		Long: `check reads the configuration that run would use, connects to Postgres and Kafka and changes nothing.
The topics it looks for are the topics that rows in the outbox lead to. Problems come first. Each finding says
what was found, why it matters, and the SQL or command that fixes it. A connector that answers at http.listen
is asked what it waits for. The exit code is 3 when run would not work, or does not.`,
		Example: `  cdc-outbox check --config cdc-outbox.yaml
  cdc-outbox check --quiet
  cdc-outbox check --json | jq '.findings[] | select(.level == "fail")'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			findings, err := service.Check(cmd.Context(), c, a.progress())
			if err != nil {
				return err
			}
			return a.printReport(findings, asJSON, quiet)
		},
	}
	cmd.Flags().BoolVar(&quiet, "quiet", false, "leave out what is fine")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printReport(findings []preflight.Finding, asJSON, quiet bool) error {
	fails, warns := count(findings, preflight.Fail), count(findings, preflight.Warn)
	if asJSON {
		if err := a.printJSON(report{OK: fails == 0, Findings: findings}); err != nil {
			return err
		}
	} else {
		if err := console.Findings(a.stdout, findings, a.style(), quiet); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "\n%d to fix, %d to think about, %d fine\n", fails, warns, len(findings)-fails-warns)
	}
	if fails == 0 {
		if !asJSON && !service.Runs(findings) {
			fmt.Fprintln(a.stdout, "Next: cdc-outbox run")
		}
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "check",
		Err:  fmt.Errorf("%d of %d findings keep run from working", fails, len(findings)),
		Next: "Do what the findings say, then check again.",
	}
}
