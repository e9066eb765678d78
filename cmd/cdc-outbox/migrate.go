package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/debezium/migrate"
)

// maxConnectorFile bounds a connector's configuration, in bytes.
const maxConnectorFile = 4 << 20

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Take over from a Debezium connector, or from a relay that polls",
		Long: `migrate debezium turns a Debezium connector's configuration into this program's and accounts for every
option of it. migrate verify compares what both wrote to Kafka. migrate polling switches from polling to the log.
docs/migrating-from-debezium.md and docs/migrating-from-polling.md tell the whole story.`,
		Example: `  cdc-outbox migrate debezium connector.json --output cdc-outbox.yaml
  cdc-outbox migrate verify --left-prefix outbox.event. --right-prefix verify.outbox.event.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = io.WriteString(a.stderr, cmd.UsageString())
			return fault.Usage("migrate wants to know what to do",
				"cdc-outbox migrate debezium FILE, cdc-outbox migrate polling, or cdc-outbox migrate verify")
		},
	}
	cmd.AddCommand(a.migrateDebeziumCommand(), a.migratePollingCommand(), a.migrateVerifyCommand())
	return cmd
}

type migrateOptions struct {
	worker, output string
	asJSON         bool
}

func (a *app) migrateDebeziumCommand() *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "debezium FILE",
		Short: "Print this program's configuration for a Debezium connector, and what becomes of each of its options",
		Long: `debezium reads the configuration of a Debezium PostgreSQL connector with the outbox event router: the
JSON of Kafka Connect (also as GET /connectors/NAME and ?expand=info answer, in a script with curl, as YAML, or as a
statement of ksqlDB), the properties of a standalone worker, Strimzi's KafkaConnector as YAML or kubectl's JSON, or
Debezium Server's application.properties, application.yaml or environment variables, also in a docker-compose file, a
Deployment or a ConfigMap; - is stdin. It connects to nothing and changes nothing.

The configuration goes to stdout, or to --output; the report, with the steps of the change, to stderr, or to stdout
where the configuration has a file. Passwords are never printed. The exit code is 3 while something needs a decision.`,
		Example: `  cdc-outbox migrate debezium connector.json \
    --worker connect-distributed.properties --output cdc-outbox.yaml
  curl -s http://connect:8083/connectors/outbox | cdc-outbox migrate debezium - --json |
    jq '.options[] | select(.verdict != "translated")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fault.Usage("migrate debezium takes one file",
					"cdc-outbox migrate debezium connector.json, or - for stdin")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.migrateDebezium(args[0], o) },
	}
	cmd.Flags().StringVar(&o.worker, "worker", "",
		"properties of the Connect worker, for what the connector leaves to it")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "file for the configuration; it must not exist")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print report and configuration as JSON")
	return cmd
}

func (a *app) migrateDebezium(file string, o migrateOptions) error {
	data, err := a.readInput(file)
	if err != nil {
		return inputError(file, err)
	}
	in, err := migrate.Parse(data)
	if err != nil {
		return inputError(file, err)
	}
	if o.worker != "" {
		if data, err = a.readInput(o.worker); err == nil {
			err = in.Worker(data)
		}
		if err != nil {
			return inputError(o.worker, err)
		}
	}
	r := migrate.Translate(in, o.output)
	if err := a.writeMigration(r, o); err != nil {
		return err
	}
	if r.Settled() {
		return nil
	}
	return reported{&fault.Error{
		Kind: fault.Operator, Object: "migration", Err: errors.New("something needs a decision"),
	}}
}

func (a *app) writeMigration(r *migrate.Report, o migrateOptions) error {
	report, config := a.stderr, a.stdout
	if o.output != "" {
		f, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return &fault.Error{
				Kind: fault.Config, Object: "--output", Err: err, Next: "Name a file that does not exist yet.",
			}
		}
		defer f.Close()
		report, config = a.stdout, f
	}
	if o.asJSON {
		if o.output != "" {
			if _, err := io.WriteString(config, r.Config); err != nil {
				return err
			}
		}
		return a.printJSON(r)
	}
	if _, err := io.WriteString(config, r.Config); err != nil {
		return err
	}
	_, err := io.WriteString(report, migrationText(r))
	return err
}

// headings are the report's parts, with the urgent part last, where a terminal shows it.
var headings = []struct {
	verdict migrate.Verdict
	title   string
}{
	{migrate.Translated, "Translated"},
	{migrate.Without, "Without meaning here"},
	{migrate.Unknown, "Unknown"},
	{migrate.Refused, "Cannot be equal"},
	{migrate.Decide, "Needs a decision"},
}

func migrationText(r *migrate.Report) string {
	var b strings.Builder
	steps := func(title string, all []migrate.Step) {
		fmt.Fprintf(&b, "\n%s\n", title)
		for i, s := range all {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, fault.Printable(s.Do))
			console.Style{}.Paragraph(&b, "", strings.Join(s.Commands, "\n"))
			console.Style{}.Paragraph(&b, "why: ", s.Why)
		}
	}
	fmt.Fprintf(&b, "Read as %s\n", strings.TrimSuffix(r.Form.String()+", "+r.From, ", "))
	steps("Side by side, to compare (optional)", r.SideBySide)
	steps("Taking over slot and publication", r.Takeover)
	steps("Rollback", r.Rollback)
	b.WriteString("\nDifferences that no option decides\n")
	for _, d := range r.Differences {
		b.WriteString("  - " + fault.Printable(d) + "\n")
	}
	for _, h := range headings {
		if r.Counts[h.verdict] == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s (%d)\n", h.title, r.Counts[h.verdict])
		for _, e := range r.Options {
			if e.Verdict != h.verdict {
				continue
			}
			line := e.Option
			if e.Value != "" {
				line += " = " + e.Value
			}
			if e.Key != "" {
				line += "  ->  " + e.Key
			}
			b.WriteString("  " + fault.Printable(line) + "\n")
			console.Style{}.Paragraph(&b, "", e.Note)
		}
	}
	return b.String()
}

// readInput reads the file, or stdin for a dash.
func (a *app) readInput(file string) ([]byte, error) {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxConnectorFile+1))
	if err == nil && len(data) > maxConnectorFile {
		err = fmt.Errorf("it is larger than %d MiB", maxConnectorFile>>20)
	}
	return data, err
}

func inputError(file string, err error) error {
	return &fault.Error{
		Kind: fault.Config, Object: file, Err: err, Next: "Give the connector's JSON or properties; GET " +
			"/connectors/NAME of Kafka Connect's REST interface answers it.",
	}
}
