package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

func (a *app) configCommand() *cobra.Command {
	var asJSON, origins bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, secrets masked; validate a file",
		Long: `config reads the configuration as run does and reports all problems at once. It prints the values in
effect as a file that could be used again; only the secrets are masked.

Each key below can be set in the file, as a variable (postgres.dsn is CDC_OUTBOX_POSTGRES_DSN) and on the command line
of every command. A flag overrides a variable, and a variable overrides the file.`,
		Example: `  cdc-outbox config --origins
  cdc-outbox config --config cdc-outbox.yaml --json`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			for _, w := range c.Warnings {
				fmt.Fprintln(a.stderr, "warning: "+w)
			}
			if asJSON {
				return a.printJSON(c.Values())
			}
			text, err := c.YAML(origins)
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: key, value and origin")
	cmd.Flags().BoolVar(&origins, "origins", false, "print where each value comes from")
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		if c == cmd {
			fmt.Fprint(a.stdout, "\nConfiguration flags:\n"+keyFlags())
		}
	})
	cmd.AddCommand(a.configInitCommand(), a.configValidateCommand(), a.configSchemaCommand())
	return cmd
}

// keyFlags lists the flags of all keys.
func keyFlags() string {
	var b strings.Builder
	for _, f := range config.Fields() {
		fmt.Fprintf(&b, "      --%s %s", f.Flag, f.Type)
		if f.Default != "" {
			fmt.Fprintf(&b, " (default %s)", f.Default)
		}
		fmt.Fprintf(&b, "\n            %s\n", f.Doc)
	}
	return b.String()
}

// load reads the configuration with the checks that only other packages know.
func (a *app) load(cmd *cobra.Command) (*config.Loaded, error) {
	return routing.Load(config.Options{
		Environ: a.environ, Flags: cmd.Flags(),
		Checks: map[string]func(string) error{
			"traces.endpoint": traces.CheckEndpoint,
			"traces.headers":  func(s string) error { _, err := traces.ParseHeaders(s); return err },
		},
	})
}
