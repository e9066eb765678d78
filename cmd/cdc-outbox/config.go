package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/traces"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/debezium"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
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
		Args: noArguments,
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
	c, err := config.Load(config.Options{
		Environ: a.environ, Flags: cmd.Flags(),
		Checks: map[string]func(string) error{
			"postgres.dsn":                checkDSN,
			"postgres.primary_dsn":        checkDSN,
			"postgres.tables":             func(s string) error { _, err := identifier.ParseTable(s); return err },
			"postgres.publication":        identifier.Check,
			"postgres.checkpoint":         func(s string) error { _, err := identifier.ParseTable(s); return err },
			"router.topic":                checkTemplate,
			"router.debezium.additional":  debezium.CheckPlacement,
			"router.debezium.topic_regex": debezium.CheckPattern,
			"router.dead_letter_topic":    router.CheckTopic,
			"traces.endpoint":             traces.CheckEndpoint,
			"traces.headers":              func(s string) error { _, err := traces.ParseHeaders(s); return err },
		},
	})
	if err != nil {
		return nil, err
	}
	if _, err := routing.New(c); err != nil { // rules about several keys
		return nil, err
	}
	return c, nil
}

// checkDSN leaves out the error of the parser, which quotes the string and masks the password only if it finds it.
func checkDSN(dsn string) error {
	parsed, err := pgconn.ParseConfig(dsn)
	var file *fs.PathError
	switch {
	case err == nil && strings.Contains(parsed.Host, "@"): // and the text before it is the end of the password
		return errors.New("has an @ in the host; write an @ in the password of a URL as %40")
	case err == nil:
		return nil
	case errors.As(err, &file):
		return fmt.Errorf("names the file %s, which cannot be read: %w", file.Path, file.Err)
	default:
		return errors.New("is neither keyword=value pairs nor a postgres:// URL; " +
			"in a URL, characters such as @ : / ? # % in the password are written as %40 %3A %2F %3F %23 %25")
	}
}

func checkTemplate(template string) error {
	_, err := outbox.New(outbox.Config{Columns: outbox.DefaultColumns(), Topic: template})
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Err
	}
	return err
}
